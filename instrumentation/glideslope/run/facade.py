# SPDX-License-Identifier: Apache-2.0
"""What a training script calls: `init` and `Run`.

In: values by name, settings, tags, histograms, texts. Out: events of the session. Raises nothing into training but in
strict mode; imports `current`, `session` and what reads values.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from types import TracebackType
from typing import Any, Self

from glideslope import env
from glideslope.capture import distributions
from glideslope.capture import values as reading
from glideslope.capture.compiling import run_eagerly
from glideslope.capture.values import MetricReader, Refused
from glideslope.errors import ConfigError, InvalidValueError
from glideslope.events import ConfigLogged, HistogramLogged, MetricsLogged, TagsChanged, TextLogged
from glideslope.run import current
from glideslope.run.configs import flatten, is_config
from glideslope.run.identity import check_run_id
from glideslope.run.redaction import redact_text
from glideslope.run.session import Session

_log = logging.getLogger("glideslope")

_DAY_S = 86_400.0
_FUTURE_S = 2 * _DAY_S
_EARLIEST_S = _DAY_S
"""VictoriaMetrics drops samples before 1970-01-02 and more than two days ahead (-futureRetention), with HTTP 200."""
_TOLD_AT_MOST = 64
_MAX_TAGS = 1_000
_MAX_HISTOGRAMS = 10_000


class Run:
    """The run of this process; get it from `glideslope.init`.

    Every method may be called on any rank and any thread, before, during and after training. What cannot be logged is
    dropped, counted in `train.telemetry.drops` and warned about once for each cause; in strict mode it raises
    InvalidValueError instead and nothing of that call is logged. After `close`, and in a forked child until it calls
    `init` itself, methods do nothing.
    """

    def __init__(self, session: Session | None, strict: bool) -> None:
        """`session` is None where telemetry is switched off; `glideslope.init` makes runs."""
        self._session = session
        self._strict = strict
        self._reader = MetricReader()
        self._told: set[str] = set()

    @property
    def run_id(self) -> str:
        """Id of the run, the same on all ranks; empty where telemetry is off."""
        return self._session.identity.run_id if self._session else ""

    @property
    def name(self) -> str:
        """Name that people gave the run, else its id."""
        return self._session.identity.run_name if self._session else ""

    @property
    def attempt(self) -> int:
        """0 for the first start of the run, then 1, 2, … after each restart."""
        return self._session.identity.attempt if self._session else 0

    @property
    def rank(self) -> int:
        """Global rank of this process."""
        return self._session.identity.rank if self._session else 0

    def log_metrics(
        self,
        values: Any,
        step: Any = None,
        *,
        names: Any = None,
        timestamp: datetime | float | None = None,
        preview: bool = False,
        preview_completion: float | None = None,
    ) -> None:
        """Log numbers by name at a step.

        Args:
            values: a mapping name -> number; or numbers of shape (n,), an array, tensor or list, with `names`. Numbers
                are Python's, numpy's, or tensors of one element of any real dtype. CUDA tensors are copied in the
                background and appear a little later, with the step and time of this call.
            step: 0..1e12; completed optimizer steps, floats in between are allowed, in any order.
            names: n names of 1..1024 bytes; passing the same tuple object each time is fastest.
            timestamp: when it was, as a datetime (naive = local time) or seconds since the epoch; default now.
            preview: the values may still change; the next ones replace them.
            preview_completion: how far a preview is, 0..1.

        NaN and infinities are counted in `train.nonfinite` and reported as an event with the step.
        Raises InvalidValueError in strict mode, else nothing.
        """
        session = self._session
        if session is None or not session.live:
            return
        now = time.time_ns()
        try:
            at = step if type(step) is int and 0 <= step <= reading.MAX_STEP else reading.step_of(step)
            found = self._reader.read(values, names)
            plain = timestamp is None and preview is False and preview_completion is None
            if plain and not found.refused and not found.late and not isinstance(at, Refused):
                if found.names:
                    session.log(MetricsLogged(now, at, found.names, found.values))
            else:
                self._log_slowly(session, found, at, now, timestamp, (preview, preview_completion))
            if session.pending.calls:
                session.pending.drain()
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("log_metrics", error)

    def _log_slowly(
        self, session: Session, found: reading.Read, step: Any, now: int, timestamp: Any, preview: tuple[Any, Any]
    ) -> None:
        moment = _moment(timestamp, now)
        completion = _completion(*preview)
        refused = found.refused
        if isinstance(step, Refused) or isinstance(moment, Refused) or isinstance(completion, Refused):
            bad = next(part for part in (step, moment, completion) if isinstance(part, Refused))
            lost = len(found.names) + sum(tensor.numel() for tensor in found.late)
            self._refuse(session, (*refused, bad._replace(lost=max(1, lost))))
            return
        if refused:
            self._refuse(session, refused)
        timed = timestamp is not None
        if found.names:
            session.log(MetricsLogged(moment, step, found.names, found.values, timed, completion))
        if found.late:
            names = found.late_names
            session.pending.add(
                found.late,
                lambda numbers: session.log(MetricsLogged(moment, step, names, numbers, timed, completion)),
            )

    def log_histogram(
        self,
        name: str,
        values: Any = None,
        step: Any = None,
        *,
        edges: Any = None,
        counts: Any = None,
        timestamp: datetime | float | None = None,
    ) -> None:
        """Log a distribution at a step.

        Args:
            name: 1..1024 bytes.
            values: array or tensor of any shape and real dtype; it is counted into fixed edges (two per decade from
                1e-10 to 1e6 on both sides of zero, `glideslope.capture.distributions`), on CUDA without waiting. NaN
                and infinities are counted apart.
            step: as in `log_metrics`.
            edges, counts: instead of values, n + 1 increasing edges and n whole counts; bin i is (edges[i],
                edges[i + 1]].
            timestamp: as in `log_metrics`.

        Raises InvalidValueError in strict mode, else nothing.
        """
        session = self._session
        if session is None or not session.live:
            return
        try:
            self._histogram(session, name, values, step, edges, counts, timestamp)
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("log_histogram", error)

    def log_histograms(self, values: Mapping[str, Any], step: Any) -> None:
        """Log several distributions at a step: name -> array, tensor, or a pair (edges, counts).

        Raises InvalidValueError in strict mode, else nothing.
        """
        session = self._session
        if session is None or not session.live:
            return
        try:
            try:
                pairs = list(islice(values.items(), _MAX_HISTOGRAMS))
            except Exception:
                told = f"histograms are of type {type(values).__qualname__[:60]}: pass a dict of names and arrays"
                self._refuse(session, (Refused("type", told),))
                return
            for name, one in pairs:
                if type(one) is tuple and len(one) == 2:
                    self._histogram(session, name, None, step, one[0], one[1], None)
                else:
                    self._histogram(session, name, one, step, None, None, None)
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("log_histograms", error)

    def _histogram(
        self, session: Session, name: Any, values: Any, step: Any, edges: Any, counts: Any, timestamp: Any
    ) -> None:
        moment, at = _moment(timestamp, time.time_ns()), reading.step_of(step)
        if values is None:
            found = distributions.from_counts(edges, counts)
        elif edges is not None or counts is not None:
            found = Refused("arguments", "a histogram has values, or edges and counts, not both")
        else:
            found = distributions.from_values(values)
        unnamed = reading.name_refused(name)
        if unnamed or isinstance(at, Refused) or isinstance(moment, Refused) or isinstance(found, Refused):
            bad = next(part for part in (unnamed, at, moment, found) if isinstance(part, Refused))
            self._refuse(session, (bad if unnamed else bad._replace(name=str(name)),))
            return
        timed = timestamp is not None

        def record(counted: distributions.Counted) -> None:
            session.log(HistogramLogged(moment, at, str(name), *counted, timed))

        if isinstance(found, distributions.Counted):
            record(found)
        else:
            session.pending.add((found,), lambda flat: record(distributions.unpack(flat)))

    def log_text(self, name: str, text: str, step: Any = None) -> None:
        """Log a text, such as a sample of the model; it goes to the logs store, 8 KiB of it at most.

        Raises InvalidValueError in strict mode, else nothing.
        """
        session = self._session
        if session is None or not session.live:
            return
        try:
            at = None if step is None else reading.step_of(step)
            bad = reading.name_refused(name)
            if bad is None and isinstance(at, Refused):
                bad = at._replace(name=str(name))
            elif bad is None and not isinstance(text, str):
                bad = Refused("text", f"the text is of type {type(text).__qualname__[:60]}: pass a str", str(name))
            if bad is not None or isinstance(at, Refused):
                self._refuse(session, (bad,) if bad is not None else ())
                return
            session.log(TextLogged(time.time_ns(), at, str(name), str(text)))
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("log_text", error)

    def log_configs(self, config: Any) -> None:
        """Record settings: a mapping, dataclass, argparse namespace or OmegaConf object, nested as you like.

        Keys are joined with "/"; secrets are replaced by `[redacted]` before anything is stored; depth, number and
        size are bounded (`run/configs.py`), what is cut is counted and said once. Later values of a key replace
        earlier ones. Raises InvalidValueError in strict mode, else nothing.
        """
        session = self._session
        if session is None or not session.live:
            return
        try:
            if not is_config(config):
                told = f"a config is of type {type(config).__qualname__[:60]}: pass a dict, a dataclass or a namespace"
                self._refuse(session, (Refused("config", told),))
                return
            flat = flatten(config)
            if flat.cut:
                told = f"{flat.cut} entries of the config are left out or shortened: log what matters, in parts"
                session.drop("logs", "budget", flat.cut, told)
                self._tell("config size", told)
            if flat.values:
                session.log(ConfigLogged(time.time_ns(), flat.values))
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("log_configs", error)

    def add_tags(self, tags: str | Iterable[str]) -> None:
        """Give the run tags; secrets of known shape in them are redacted. Raises only in strict mode."""
        self._change_tags(tags, True)

    def remove_tags(self, tags: str | Iterable[str]) -> None:
        """Take tags off the run. Raises only in strict mode."""
        self._change_tags(tags, False)

    def _change_tags(self, tags: Any, added: bool) -> None:
        session = self._session
        if session is None or not session.live:
            return
        try:
            try:
                listed = [tags] if isinstance(tags, str) else list(islice(tags, _MAX_TAGS))
            except Exception:
                self._refuse(session, (Refused("tag", "tags are no list: pass a str or a list of str"),))
                return
            good, refused = [], []
            for tag in listed:
                bad = reading.name_refused(tag)
                if bad is None:
                    good.append(redact_text(str(tag)))
                else:
                    refused.append(Refused("tag", "a tag is empty, too long or no str: tags are str of 1..1024 bytes"))
            if refused:
                self._refuse(session, tuple(refused))
            if good:
                fresh = tuple(dict.fromkeys(good))
                now = time.time_ns()
                session.log(TagsChanged(now, added=fresh) if added else TagsChanged(now, removed=fresh))
        except InvalidValueError:
            raise
        except Exception as error:
            session.failed("tags", error)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything logged so far was acknowledged.

        False when `timeout_s` seconds passed before, or when the disk or the receiver refused values since the last
        call: they are gone.
        """
        session = self._session
        try:
            return session is None or session.over or session.flush(max(0.0, float(timeout_s)))
        except Exception as error:
            if session is not None:
                session.failed("flush", error)
            return False

    def close(self, timeout_s: float | None = None) -> None:
        """End the run in this process: send what is left within `timeout_s` (GLIDESLOPE_EXIT_TIMEOUT), take hooks out.

        What could not be sent stays on disk for `glideslope sync`. Runs by itself at interpreter exit.
        """
        session = self._session
        if session is None:
            return
        try:
            session.stop(None if timeout_s is None else max(0.0, float(timeout_s)))
        except Exception as error:
            session.failed("close", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._session is not None:
            self._session.note_failure(kind)
        self.close()

    def __repr__(self) -> str:
        return f"<glideslope.Run {self.run_id or 'off'} attempt {self.attempt} rank {self.rank}>"

    def _refuse(self, session: Session, refused: tuple[Refused, ...]) -> None:
        """Count values that cannot be logged; say each cause once. Raises InvalidValueError in strict mode."""
        if self._strict:
            raise InvalidValueError(_sentence(refused[0]))
        session.drop("metrics", "bad_value", sum(bad.lost for bad in refused), _sentence(refused[0]))
        for bad in refused:
            self._tell(f"{bad.cause} {bad.name} {bad.told}", _sentence(bad))

    def _tell(self, cause: str, sentence: str) -> None:
        if cause not in self._told and len(self._told) < _TOLD_AT_MOST:
            self._told.add(cause)
            _log.warning("glideslope: %s (said once; drops are counted)", sentence)


def _sentence(bad: Refused) -> str:
    return f"{bad.name[:80]!r} is not logged: {bad.told}" if bad.name else f"not logged: {bad.told}"


def _moment(timestamp: Any, now: int) -> int | Refused:
    """Nanoseconds since the epoch."""
    if timestamp is None:
        return now
    try:
        seconds = timestamp.timestamp() if isinstance(timestamp, datetime) else reading.host_scalar(timestamp)
    except Exception as error:
        seconds = Refused("timestamp", type(error).__name__)
    if isinstance(seconds, Refused):
        return Refused("timestamp", "the timestamp cannot be read: pass a datetime or seconds since the epoch")
    if not _EARLIEST_S <= seconds <= now / 1e9 + _FUTURE_S:
        told = f"timestamp {seconds:g} s lies before 1970-01-02 or more than two days ahead, where stores drop it: "
        return Refused("timestamp", told + "pass a datetime or seconds (not ms or ns) since the epoch")
    return int(seconds * 1e9)


def _completion(preview: Any, completion: Any) -> float | Refused | None:
    """Completion of a preview, 0..1; None for committed values."""
    if preview is not True and preview is not False:
        return Refused("preview", "preview is no bool: pass preview=True or leave it out")
    if not preview:
        return None if completion is None else Refused("preview", "preview_completion needs preview=True")
    found = 0.0 if completion is None else reading.host_scalar(completion)
    if isinstance(found, Refused) or not 0.0 <= found <= 1.0:
        return Refused("preview", "preview_completion lies outside 0..1: pass the part of the work that is done")
    return found


def init(
    name: str | None = None,
    *,
    run_id: str | None = None,
    config: Any = None,
    tags: str | Iterable[str] = (),
    strict: bool | None = None,
) -> Run:
    """Return the run of this process, beginning it where nothing has yet; calling it again returns the same.

    It is optional: `glideslope run` and `opentelemetry-instrument` record a training without it, and then `init`
    returns their run. Otherwise it instruments this process: spool and sender open at once, hooks go into torch when
    the script imports it. A child of multiprocessing that calls it joins its parent's run with a spool of its own; its
    rank is RANK, or that of the process group, or the number of the child. After `close` it begins anew.

    Args:
        name: name for people; GLIDESLOPE_RUN_NAME wins.
        run_id: url-safe id, the same on all ranks; GLIDESLOPE_RUN_ID (set by `glideslope run`) wins.
        config: settings, as in `Run.log_configs`.
        tags: tags, as in `Run.add_tags`.
        strict: raise InvalidValueError for values that cannot be logged; default GLIDESLOPE_STRICT.

    Raises ConfigError for a name or run id that cannot be used, and in strict mode for such an environment variable
    (else one warning says that telemetry stays off).
    """
    for what, given in (("name", name), ("run_id", run_id)):
        if given is not None and not isinstance(given, str):
            raise ConfigError(f"init({what}=…) is of type {type(given).__qualname__}: pass a str")
    if run_id is not None:
        check_run_id(run_id)
    try:
        if env.OTEL_SDK_DISABLED.get():
            return Run(None, False)
        chosen = env.GLIDESLOPE_STRICT.get() if strict is None else bool(strict)
        run = _adopted(name, run_id, chosen)
    except ConfigError as error:
        if strict:
            raise
        _log.warning("glideslope stays off in this process: %s", error)
        return Run(None, False)
    if config is not None:
        run.log_configs(config)
    if tags:
        run.add_tags(tags)
    return run


def _adopted(name: str | None, run_id: str | None, strict: bool) -> Run:
    process = current.process
    with process.lock:
        session = current.adopt(name, run_id)
        session.open()
        run = process.run
        if isinstance(run, Run) and run._session is not None and (run._session is session or run._session.inherited):
            # Also the object that a forked child has from its parent: it comes to life again.
            run._session, run._strict = session, strict
        else:
            run = process.run = Run(session, strict)
        return run


run_eagerly(
    Run.log_metrics,
    Run.log_histogram,
    Run.log_histograms,
    Run.log_text,
    Run.log_configs,
    Run.add_tags,
    Run.remove_tags,
    Run.flush,
    Run.close,
    init,
)
