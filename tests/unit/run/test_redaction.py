# SPDX-License-Identifier: Apache-2.0
"""Secrets never get past redaction; ordinary settings always do. Canaries are made up here, none was ever valid."""

from __future__ import annotations

from typing import Any

import pytest

from glideslope.run.configs import flatten
from glideslope.run.redaction import REDACTED, redact

WORD = "canary7Zq"
LONG = "Zq7canaryB3xN9mK2pR5tW8yC1vL4hJ6dF0gS"

BY_KEY = [
    *("password", "passwd", "db_password", "dbPass", "db_pass", "pwd", "PGPASSWORD", "passphrase", "MYSQL_PASSWORD"),
    *("api_key", "apikey", "API_KEY", "apiKey", "api-key", "openai_api_key", "WANDB_API_KEY", "OPENAI_KEY", "hf_key"),
    *("secret", "client_secret", "aws_secret_access_key", "secretKey", "secret_key", "SECRET"),
    *("token", "auth_token", "access_token", "hf_token", "HF_TOKEN", "hub_token", "hubToken", "github_token"),
    *("bearer_token", "refresh_token", "WANDB_TOKEN", "neptune_api_token", "NEPTUNE_API_TOKEN", "slack_bot_token"),
    *("private_key", "ssh_private_key", "encryption_key", "signing_key", "auth_key", "client_key", "storage_key"),
    *("credentials", "gcp_credentials", "creds", "aws_creds", "authorization", "license_key", "webhook_secret"),
    *("logger/api_key", "secrets/anything/below", "trainer.hub.token", "credentials/user", "dsn", "kaggle_key"),
]

BY_VALUE = [
    "AKIAZQ7CANARYB3XN9MK",
    "ASIAZQ7CANARYB3XN9MK",
    "hf_" + LONG[:34],
    "glsa_" + LONG[:32] + "_abcdef12",
    "eyJrIjoi" + LONG,
    "ghp_" + LONG[:36],
    "gho_" + LONG[:36],
    "github_pat_" + LONG,
    "glpat-" + LONG[:20],
    "sk-" + LONG,
    "sk-proj-" + LONG,
    "sk-ant-api03-" + LONG,
    "sk_live_" + LONG[:24],
    "xoxb-1234567890-" + LONG[:24],
    "xoxp-1234567890-" + LONG[:24],
    "https://hooks.slack.com/services/T0000/B0000/" + LONG[:24],
    "https://discord.com/api/webhooks/123/" + LONG,
    "AIza" + LONG[:35],
    "ya29." + LONG,
    "npm_" + LONG[:36],
    "pypi-AgEI" + LONG,
    "dckr_pat_" + LONG[:27],
    "SG." + LONG[:22] + "." + LONG,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI" + LONG + "." + LONG,
    "-----BEGIN RSA PRIVATE KEY-----\n" + LONG + "\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n" + LONG,
    f"postgres://user:{WORD}@db:5432/x",
    f"https://{LONG}@github.com/x/y.git",
    f"https://user:{WORD}@proxy.example:8080",
    f"redis://:{WORD}@cache",
    f"s3://bucket/key?X-Amz-Signature={LONG}&X-Amz-Expires=60",
    f"https://blob/x?sv=2020&sig={LONG}",
    f"https://api/x?access_token={LONG}",
    f"Authorization: Bearer {LONG}",
    f"Basic {LONG}",
    f"python train.py --api-key {WORD} --lr 1",
    f"python train.py --wandb-api-key={WORD}",
    f"python train.py --password '{WORD}'",
    f"python train.py --hub-token {WORD}",
    f"WANDB_API_KEY={WORD} python train.py",
    f"export HF_TOKEN={WORD}",
    f"DB_PASSWORD={WORD};x=1",
    f"DefaultEndpointsProtocol=https;AccountKey={LONG}==;x=1",
]

REAL_CONFIGS: list[dict[str, Any]] = [
    # The settings that common training codes write, by name.
    {"num_tokens": 300_000_000_000, "max_tokens": 4096, "tokens_per_batch": 524288, "tokenizer": "gpt2", "seed": 1},
    {"use_cls_token": True, "cls_token": "[CLS]", "pad_token": "<pad>", "eos_token": "</s>", "bos_token": "<s>"},
    {"unk_token": "<unk>", "mask_token": "[MASK]", "image_token": "<image>", "pad_token_id": 0, "eos_token_id": 50256},
    {"tokenizer_name": "meta-llama/Llama-3.1-8B", "tokenizer_path": "/data/tok.model", "vocab_size": 128256},
    {"token_dropout": 0.1, "num_memory_tokens": 16, "special_tokens": ["<a>", "<b>"], "tokens_seen": 0},
    {"key": "value", "sort_key": "length", "label_key": "labels", "keys": ["a"], "monitor_key": "val/loss"},
    {"key_dim": 64, "num_key_value_heads": 8, "qk_norm": True, "kv_cache": False, "query_key_value": "fused"},
    {"passes": 3, "num_passes": 2, "bypass": True, "forward_pass": "fp8", "low_pass_filter": 0.5, "pass_through": True},
    {"secretary_problem": False, "author": "someone", "authors": ["a"], "authenticate": False, "use_auth_token": True},
    {
        "path": "/data/runs/2024-01-01_12-00-00",
        "git": "https://github.com/pytorch/pytorch",
        "commit": "a1b2c3d4e5f6" * 3,
    },
    {"dataset": "s3://bucket/c4/en", "endpoint": "http://127.0.0.1:4318", "url": "https://example.org/x?key_dim=3&y=1"},
    {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "schedule": "cosine", "warmup_steps": 2000},
    {
        "argv": ["train.py", "--lr", "1e-3", "--num-tokens", "5", "--tokenizer", "gpt2"],
        "cmd": "torchrun train.py --lr 1",
    },
    {"model": {"hidden_size": 4096, "n_layer": 32, "rope_theta": 5e5, "attn": "flash"}, "dtype": "bfloat16"},
    {"activation_checkpointing": True, "fsdp": {"reshard": True}, "compile": True, "world_size": 512, "basic": "yes"},
    {
        "basic_block": "resnet",
        "bearing": 3,
        "compat": True,
        "pattern": "a*",
        "dispatch": "x",
        "patience": 5,
        "patch": 16,
    },
    {
        "run_id": "gpt-20240101-120000-ab12",
        "run_name": "skip-sk-test",
        "host": "node-17",
        "mask": "sk-ip",
        "id": "x" * 40,
    },
    {"max_pwd_len": 8, "password_length": 12, "token_count": 5, "secret_dim": 3, "api_key_name": "OPENAI"},
    {"prompt": "What is the secret of life? The password is a word.", "text": "token by token, key = value"},
    {
        "hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "digest": "sha256:abc",
        "uuid": "GPU-1",
    },
]


@pytest.mark.parametrize("key", BY_KEY)
def test_a_value_under_a_secret_key_is_redacted(key: str) -> None:
    assert redact(key, WORD) == REDACTED
    assert WORD not in str(flatten({"outer": {key: WORD}}).values)


@pytest.mark.parametrize("text", BY_VALUE)
def test_a_secret_of_known_shape_is_redacted_wherever_it_stands(text: str) -> None:
    for shown in (
        redact("note", text),
        flatten({"note": f"before {text} after"}).values["note"],
        flatten({"list": ["x", text]}).values["list"],
        flatten({"deep": [{"note": text}]}).values["deep/0/note"],
    ):
        assert WORD not in str(shown)
        assert "canary" not in str(shown).lower()
        assert REDACTED in str(shown)


def test_the_word_behind_a_secret_option_is_redacted() -> None:
    argv = ["train.py", "--api-key", WORD, "--hub_token", WORD, "--lr", "1e-3", f"--password={WORD}"]
    shown = flatten({"argv": argv}).values["argv"]
    assert WORD not in str(shown)
    assert "1e-3" in str(shown)


def test_numbers_under_a_password_go_but_switches_stay() -> None:
    assert redact("password", 1234) == REDACTED
    assert redact("use_auth_token", True) is True
    assert redact("token", 5) == 5
    assert redact("password", "") == ""


def test_a_random_text_under_any_key_or_token_is_redacted() -> None:
    assert redact("sweep_key", LONG) == REDACTED
    assert redact("my_token", LONG) == REDACTED
    assert redact("sweep_key", "learning_rate") == "learning_rate"


@pytest.mark.parametrize("config", REAL_CONFIGS, ids=lambda config: next(iter(config)))
def test_ordinary_settings_stay_as_they_are(config: dict[str, Any]) -> None:
    assert REDACTED not in str(flatten(config).values)


def test_what_surrounds_a_secret_stays_readable() -> None:
    assert redact("url", f"https://user:{WORD}@db.example/x") == f"https://{REDACTED}@db.example/x"
    assert redact("cmd", f"train.py --api-key {WORD} --lr 1") == f"train.py --api-key {REDACTED} --lr 1"
