"""``brokerproof proxy``: records and judges a running application and its broker.

Exit: 0 no violation · 1 a violation · 2 inconclusive · 3 the proxy cannot listen on the address, or
no usable Java or Spark · 4 usage error · 5 internal error."""

import asyncio
import json
import os
import shutil
import signal
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.commands import errors, report_process
from brokerproof.harness.commands.load_options import lasting
from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.proxy import relay
from brokerproof.harness.proxy.recording import CASE, RESERVE
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import endpoint
from brokerproof.harness.worlds.tls import TlsFailed

APPLICATION = "application"
RESERVED = 8 << 20
PLAIN_EVERY_S = 5.0


@click.command()
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where applications connect.")
@click.option(
    "--target", required=True, metavar="HOST:PORT|URL", help="The broker; for TLS, a URL."
)
@click.option("--certificate", metavar="FILE", help="PEM file: offer TLS to the application.")
@click.option("--key", metavar="FILE", help="The certificate's key, if it is in another file.")
@click.option("--profile", metavar="NAME", help="Also judge by this broker family's documents.")
@click.option("--for", "lasts", metavar="TIME", help="End after this time. Default: end at Ctrl-C.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder.")
@click.option("--report/--no-report", default=True, help="Write the HTML report. Default: yes.")
def proxy(listen: str, target: str, lasts: str | None, report: bool, **options: Any) -> int:
    """Record and judge an application and its broker while they run, through a proxy.

    Exit: 0 nothing violated · 1 a violation · 2 inconclusive · 3 set-up failed · 4 usage error."""
    time = lasting(lasts)
    folder: Path = options["out"] or run_folder.default_folder()
    try:
        here = endpoint.read(listen, Path())
        there = endpoint.read(target, Path())
        tls = _offered(options["certificate"], options["key"])
        profiles.load(options["profile"] or "any")
        run_folder.create(folder, command=run_folder.command_line(), seed=0, effort="normal")
        with run_folder.alone(folder):
            watch = Watch(folder, there, tls)
            watch.begin(options["profile"] or "")
            asyncio.run(watch.run(here, None if time is None else time / NS_PER_S))
            code = watch.conclude(options["profile"])
    except endpoint.BadEndpoint as problem:
        raise errors.Usage(f"--listen or --target: {problem}") from None
    except (run_folder.BadRunFolder, TlsFailed, profiles.UnknownProfile) as problem:
        raise errors.Usage(str(problem)) from None
    if report:
        with report_process.ReportProcess(report_process.command(folder, quiet=False)) as writing:
            writing.write()
    click.echo(str(folder / "report" / "index.html" if report else folder))
    return code


def _offered(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise errors.Usage("--key needs --certificate")
        return None
    offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        offered.load_cert_chain(certificate, key)
    except OSError as problem:
        raise errors.Usage(
            f"{certificate}: no certificate with its key in PEM ({problem})"
        ) from None
    return offered


class Watch:
    """One proxy, from its first connection to its verdict."""

    def __init__(self, folder: Path, there: endpoint.Endpoint, tls: ssl.SSLContext | None) -> None:
        self._folder, self._there = folder, there
        self._name = there.where.replace("[", "").replace("]", "")
        self._console = Console(stderr=True, emoji=False, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._tape = relay.Tape(folder / "tape", self._on_file, self._on_full)
        self._relay = relay.Relay(there, self._tape, self._say, tls)
        self._frames, self._last = [0, 0], (relay.now(), [0, 0, 0, 0])
        self._found: list[str] = []
        self._began, self._problem = relay.now(), ""
        self._recorder: asyncio.StreamWriter

    def begin(self, profile: str) -> None:
        """Raises :class:`brokerproof.harness.results.run_folder.BadRunFolder`."""
        about = {"kind": "proxy", "clock": "REAL", "capabilities": [], "absent": {}}
        about |= {"broker": "unknown", "version": "", "configuration": "unknown"}
        about |= {"endpoint": self._there.where, "profile": profile}
        targets = [{**about, "name": name} for name in (self._name, APPLICATION)]
        run_folder.write_header_field(self._folder, "targets", targets)
        run_folder.write_header_field(self._folder, "proxy", {"target": self._there.where})
        doc = {"doc": "An application and its broker, recorded between them.", "source": ""}
        run_folder.add_cases(self._folder, {CASE: doc})
        self._tape.folder.mkdir()
        with suppress(OSError), (self._folder / RESERVE).open("wb") as reserve:
            os.posix_fallocate(reserve.fileno(), 0, RESERVED)

    async def run(self, here: endpoint.Endpoint, seconds: float | None) -> None:
        """Raises :class:`errors.SetUp`."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await self._relay.listen(here.host, here.port)
        except OSError as problem:
            (self._folder / RESERVE).unlink(missing_ok=True)
            raise errors.SetUp(f"{here.where}: cannot listen there ({problem.strerror})") from None
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if seconds is not None:
            loop.call_later(seconds, stop.set)
        recording = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "brokerproof.harness.proxy.recording"),
            *(str(self._folder), self._name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
            start_new_session=True,  # the relay handles Ctrl-C and ends the tape
        )
        assert recording.stdin is not None
        self._recorder = recording.stdin
        following = asyncio.ensure_future(self._follow(recording))
        self._say(f"listening on {here.host}:{server.sockets[0].getsockname()[1]}")
        if self._console.is_terminal:
            self._live.start()
        await self._relay.pass_time(stop, self._show)
        self._live.stop()
        server.close()
        self._relay.end()
        self._recorder.close()
        await following
        shutil.rmtree(self._tape.folder, ignore_errors=True)
        (self._folder / RESERVE).unlink(missing_ok=True)

    async def _follow(self, recording: asyncio.subprocess.Process) -> None:
        assert recording.stdout is not None
        async for line in recording.stdout:
            told = json.loads(line)
            self._frames = told.get("frames", self._frames)
            for sentence in told.get("found", ()):
                self._found.append(sentence)
                self._say(sentence)
            if "problem" in told:
                self._end_recording(told["problem"])
        if await recording.wait():
            self._end_recording("the recording process ended unexpectedly")

    def _on_file(self, path: Path) -> None:
        self._recorder.write(f"{path}\n".encode())

    def _on_full(self, problem: OSError) -> None:
        (self._folder / RESERVE).unlink(missing_ok=True)
        self._recorder.close()
        self._end_recording(problem.strerror or str(problem))

    def _end_recording(self, why: str) -> None:
        self._tape.end()
        if not self._problem:
            self._problem = (
                f"{self._folder}: the recording ended ({why}); the application's traffic continues,"
                " and the recording so far will be judged"
            )
            self._say(self._problem)

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, soft_wrap=True)

    def _show(self) -> None:
        since, before = self._last
        span, on_terminal = (relay.now() - since) / NS_PER_S, self._console.is_terminal
        if span < (1.0 if on_terminal else PLAIN_EVERY_S):
            return
        passed = [*self._frames, *self._relay.passed]
        self._last = relay.now(), passed
        sent, came, up, down = (
            (now - then) / span for now, then in zip(passed, before, strict=True)
        )
        line = (
            f"{(relay.now() - self._began) / NS_PER_S:.0f} s: {len(self._relay.halves) // 2} of"
            f" {self._relay.accepted} connections open; application {sent:,.0f} frames/s,"
            f" {up / 2**20:.2f} MiB/s; broker {came:,.0f} frames/s, {down / 2**20:.2f} MiB/s;"
            f" {len(self._found)} findings"
        )
        if on_terminal:
            self._live.update(line, refresh=True)
        else:
            self._say(line)

    def conclude(self, profile: str | None) -> int:
        """Judge the recording, print and store the result, and return the exit code."""
        # This imports Arrow and the oracles.
        from brokerproof.harness.trace.without_pandas import leave_pandas_out

        leave_pandas_out()
        from brokerproof.reports.assembly import recording_judgement as judging
        from brokerproof.reports.assembly.failures import in_one_sentence

        if not any((self._folder / "trace").rglob("part-*.parquet")):
            note = "no connection with a readable protocol was recorded"
            code = 2
            results = [Result(CASE, self._name, (), Verdict.INCONCLUSIVE, note)]
            click.echo(f"INCONCLUSIVE  {note}")
        else:
            with in_one_sentence(), judging.readable():
                judged = judging.judge(
                    [str(self._folder)], profile, whole=False, master=None, step=self._say
                )
            code = judged.exit_code
            halves = {self._name: judged.conclusion, APPLICATION: judged.of_clients}
            at = f"trace/target={self._name}#case={CASE}"
            results = [
                Result(
                    CASE,
                    name,
                    tuple(finding.requirement for finding in half.findings),
                    half.verdict,
                    half.detail or "nothing is violated",
                    half.findings,
                    trace_ref=at,
                )
                for name, half in halves.items()
                if half is not None
            ]
            click.echo(judged.text())
        if self._found:
            text = "; ".join(self._found[:100])
            results.append(Result(f"{CASE}.live", self._name, (), Verdict.NOTE, text))
        for result in results:
            records.append(self._folder, result)
        run_folder.finish(self._folder, results, code, [self._problem] if self._problem else [])
        return code
