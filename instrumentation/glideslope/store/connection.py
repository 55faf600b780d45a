# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection to one store: timeouts always, failures as StoreError with what to do.

In: requests. Out: response bytes, parsed JSON, or lines as they arrive. Imports errors only; httpx is used here and
in `server` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from glideslope.errors import StoreError

Parameters = Mapping[str, str | int | float | bool | Sequence[str] | None]
_EXCERPT = 500


class Connection:
    """A pool of connections to one store, used by the typed clients."""

    def __init__(
        self, name: str, url: str, *, timeout_s: float = 30.0, headers: Mapping[str, str] | None = None
    ) -> None:
        """`name` is the store's name for messages; `timeout_s` bounds connecting (at most 5 s) and each read or write.

        Raises StoreError for a URL that is not http or https.
        """
        if not url.startswith(("http://", "https://")):
            raise StoreError(f"{url!r} is no URL of {name}: write for example http://127.0.0.1:8428")
        self.name = name
        self.url = url.rstrip("/")
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 5.0)), headers=dict(headers or {}), trust_env=False
        )

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        form: Parameters | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (),
    ) -> Iterator[httpx.Response]:
        """Open a response whose body is still to be read; statuses from 400 raise StoreError unless in `accept`."""
        try:
            with self._client.stream(
                method,
                f"{self.url}/{path.lstrip('/')}",
                params=_clean(params),
                data=_clean(form),
                content=body,
                headers=dict(headers or {}),
            ) as response:
                if response.status_code >= 400 and response.status_code not in accept:
                    raise self._refused(path, response)
                yield response
        except httpx.TimeoutException as error:
            raise StoreError(
                f"{self.name} at {self.url} did not answer {path} in time: ask for a shorter range or fewer series, "
                "or look at `glideslope status`"
            ) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise StoreError(
                f"{self.name} at {self.url} cannot be reached ({error}): start the stack with `glideslope up`"
            ) from error

    def _refused(self, path: str, response: httpx.Response) -> StoreError:
        text = b"".join(response.iter_bytes()).decode("utf-8", "replace").strip()
        try:
            parsed = json.loads(text)
            reason = str(parsed["error"]) if isinstance(parsed, dict) and "error" in parsed else text
        except ValueError:
            reason = text
        remedy = {
            401: ": pass its credentials",
            403: ": pass its credentials",
            404: ": is this the right address and version?",
            413: ": send less at once",
            429: ": it is overloaded, try again later",
            503: ": it is overloaded or read-only, look at its free disk space",
        }.get(response.status_code, "")
        return StoreError(f"{self.name} refused {path} with status {response.status_code}{remedy}: {reason[:_EXCERPT]}")

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        form: Parameters | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (),
    ) -> httpx.Response:
        """Send a request and read the whole answer."""
        with self.stream(method, path, params=params, form=form, body=body, headers=headers, accept=accept) as response:
            response.read()
        return response

    def send_json(self, method: str, path: str, value: Any) -> httpx.Response:
        """Send a value as JSON and read the whole answer."""
        body = json.dumps(value).encode()
        return self.request(method, path, body=body, headers={"Content-Type": "application/json"})

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request and parse the answer; raises StoreError when it is not JSON. `options` as for `request`."""
        response = self.request(method, path, **options)
        try:
            return response.json()
        except ValueError:
            raise StoreError(
                f"{self.name} at {self.url} answered {path} with something that is not JSON: "
                f"is another program on that port? It began: {response.text[:80]!r}"
            ) from None

    def json_lines(self, method: str, path: str, **options: Any) -> Iterator[dict[str, Any]]:
        """Yield one parsed object for each line as it arrives. `options` as for `stream`."""
        with self.stream(method, path, **options) as response:
            for line in response.iter_lines():
                if not line:
                    continue
                try:
                    parsed = json.loads(line)
                except ValueError:
                    raise StoreError(
                        f"{self.name} broke off or sent a damaged line in answer to {path}: {line[:80]!r}"
                    ) from None
                yield parsed


class StoreClient:
    """What the typed clients share: one connection, closed with the client."""

    name = ""
    """Name of the store for messages."""

    def __init__(self, url: str, *, timeout_s: float = 30.0, headers: Mapping[str, str] | None = None) -> None:
        """`url` is the base URL, `timeout_s` bounds connecting and each read, `headers` go with every request."""
        self._connection = Connection(self.name, url, timeout_s=timeout_s, headers=headers)
        self.url = self._connection.url

    def close(self) -> None:
        """Close the pooled connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _clean(values: Parameters | None) -> dict[str, Any] | None:
    if values is None:
        return None
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        plain[name] = ("true" if value else "false") if isinstance(value, bool) else value
    return plain
