# SPDX-License-Identifier: Apache-2.0
"""Hostile text becomes safe, and different text stays different."""

import pytest

from glideslope.emit.text import distinct_label, safe_body, safe_label

HOSTILE = ["a\nb", "a\x00b", "a\u202eb", "x" * 20_000, "é" * 600, "\ud800", "a\x1b[31m", "\u2028", "\x7f", "\x85"]


@pytest.mark.parametrize("text", ["loss", 'a "quoted" {b}', "<script>", "ünï", "a/b", "日本"])
def test_harmless_text_stays_as_written(text):
    assert safe_label(text) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_replaced_and_bounded(text):
    made = safe_label(text)
    assert len(made.encode("utf-8")) <= 1024
    assert not set(made) & set("\n\x00\u202e\x1b\u2028\x7f\x85")
    assert safe_label(made) == made


def test_different_hostile_texts_stay_different():
    made = {safe_label(text) for text in [*HOSTILE, "a\x01b", "x" * 20_001]}
    assert len(made) == len(HOSTILE) + 2


def test_an_empty_value_gets_a_name():
    assert safe_label("") == "(empty)"


def test_bodies_keep_their_lines():
    assert safe_body("a\n\tb\x00") == "a\n\tb\ufffd"
    assert len(safe_body("é" * 10_000).encode()) <= 8192


def test_a_label_that_is_in_use_is_not_given_away_again():
    used = set()
    for text in ("a\nb", safe_label("a\nb"), safe_label("a\nb") + " ", "a\nb", "plain", "plain"):
        label = distinct_label(text, used)
        assert label not in used
        assert safe_label(label) == label
        used.add(label)
    assert "plain" in used


def test_a_body_that_is_cut_says_how_long_it_was():
    assert safe_body("x" * 100, 50) == "x" * 29 + " … (cut: 100 bytes)"
