"""Compares resends from a real broker to a receiver in C with a sender in C, a plain consumer, and a minimal program.

`make bench-sender` writes build/bench/sender.json. Everything runs in a network namespace of its own, so that the
receiver gets all datagrams of the resend and no others. A resend is the command `gapless resend` from start to exit;
its CPU seconds are those of all its processes, and on loopback they include the kernel's work for the receiver. Ratios
compare CPU seconds: 2 means half the cost of the reference, 0.5 means twice the cost.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from measurement import GAPLESS
from sender_workloads import PAYLOAD_SIZE, PORT, Topic, Workload, workloads

from kit.kafka.broker import KafkaBroker

HERE = Path(__file__).parent
RECEIVER_BUFFER_MIB = 512
DEADLINE_SECONDS = 300
RANGES = 10_000_000
GOAL_MIB = 200
GOAL_ENCRYPTED = 1.5
_OWN_NETWORK = "GAPLESS_BENCH_NETWORK"
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def enter_own_network() -> None:
    """Restart this program in a network namespace of its own, unless it already runs in one."""
    if os.environ.get(_OWN_NETWORK) is None:
        mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--net", *mapped, sys.executable, *sys.argv]
        sys.exit(subprocess.run(command, env={**os.environ, _OWN_NETWORK: "1"}, check=False).returncode)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def compile_program(name: str, folder: Path) -> str:
    program = folder / name
    subprocess.run(["gcc", "-O2", "-Wall", "-o", program, HERE / f"{name}.c"], check=True)
    return str(program)


class Receiver:
    """The receiver in C, while the block runs; `counted` contains its counts afterwards."""

    def __init__(self, program: str, *, joined: bool) -> None:
        self._command = [program, str(PORT), str(RECEIVER_BUFFER_MIB), str(int(joined))]
        self.counted: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        output, _ = self._process.communicate(timeout=DEADLINE_SECONDS)
        self.counted = json.loads(output)


def measure_program(command: list[str]) -> dict[str, Any]:
    """Run a program and wait; return its seconds, CPU seconds, the peak of its largest process, and its output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        begun = time.monotonic()
        process = subprocess.Popen(["timeout", str(DEADLINE_SECONDS), *command], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode not in {0, 4}:
            raise SystemExit(f"{command[:4]} failed with exit code {process.returncode}: {errors.read()[-500:]}")
        printed = output.read()
    return {
        "wall_s": round(seconds, 3),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_mib": usage.ru_maxrss // 1024,
        "output": printed,
    }


class Bench:
    """A broker with the records, and the measured programs."""

    def __init__(self, kafka: KafkaBroker, folder: Path, tools: Path, *, turns: int, joined: bool) -> None:
        self._kafka = kafka
        self._folder = folder
        self._turns = turns
        self._joined = joined
        self._receiver, self._reference = compile_program("receiver", tools), compile_program("reference", tools)
        self._certificate = folder / "receiver.pem"

    def fill(self, topic: Topic, described: Path) -> None:
        """Write the topic's records, unless they exist."""
        if topic.name in self._kafka.admin().list_topics(timeout=10).topics:
            if all(high == topic.records for _, high in self._kafka.watermarks(topic.name).values()):
                return
            raise SystemExit(f"The topic {topic.name} is incomplete: set --keep to another folder.")
        self._kafka.create_topic(topic.name, topic.partitions)
        command = [sys.executable, str(HERE / "sender_workloads.py"), "produce", self._kafka.bootstrap, str(described)]
        subprocess.run(command, check=True, timeout=4 * DEADLINE_SECONDS)

    def measure(self, workload: Workload) -> dict[str, Any]:
        """Measure the resend and the programs to compare with alternately; the cheapest turn of each counts."""
        described = self._folder / "workload.json"
        described.write_text(workload.as_json())
        self.fill(workload.topic, described)
        program = [sys.executable, str(HERE / "sender_workloads.py")]
        ready = self._folder / "datagrams"
        subprocess.run([*program, "pack", str(ready), str(described)], check=True, timeout=4 * DEADLINE_SECONDS)
        command = self._command(workload)
        resends, references, consumes, clear, plain = [], [], [], [], []
        for _ in range(self._turns):
            consumes.append(measure_program([*program, "consume", self._kafka.bootstrap, str(described)]))
            references.append(self._through(self._receiver, [self._reference, str(PORT), str(ready)]))
            resends.append(self._through(self._receiver, command))
            self._check(workload, resends[-1])
            if workload.beside_plain:
                plain.append(self._through(self._receiver, [*program, "plain", self._kafka.bootstrap, str(described)]))
            if workload.in_clear is not None:
                clear.append(self._through(self._receiver, self._command(workload.in_clear)))
        ready.unlink()
        resend = min(resends, key=lambda run: run["cpu_s"])
        c_cpu = min(json.loads(run["output"])["cpu_seconds"] for run in references)
        consume = min(consumes, key=lambda run: run["cpu_s"])
        figures = {
            "title": workload.title,
            "events": workload.events,
            "events_per_s": round(workload.events / resend["wall_s"]),
            "cpu_s_per_million": round(resend["cpu_s"] / workload.events * 1e6, 3),
            **{name: resend[name] for name in ("wall_s", "cpu_s", "peak_mib", "packets", "calls", "drops")},
            "ratio_to_c": round(c_cpu / resend["cpu_s"], 3),
            "ratio_to_consume": round(consume["cpu_s"] / resend["cpu_s"], 3),
            "c": {"cpu_s": c_cpu, "drops": [run["drops"] for run in references]},
            "consume": {"cpu_s": consume["cpu_s"], "wall_s": consume["wall_s"], "peak_mib": consume["peak_mib"]},
            "turns": [{name: run[name] for name in ("wall_s", "cpu_s", "peak_mib", "drops")} for run in resends],
        }
        if plain:
            cheapest = min(plain, key=lambda run: run["cpu_s"])
            figures["ratio_to_plain"] = round(cheapest["cpu_s"] / resend["cpu_s"], 3)
            figures["plain"] = {name: cheapest[name] for name in ("wall_s", "cpu_s", "peak_mib", "drops")}
        goals = {**workload.goals, "peak_mib": GOAL_MIB}
        if clear:
            figures["ratio_to_b"] = round(resend["cpu_s"] / min(run["cpu_s"] for run in clear), 3)
            goals["ratio_to_b"] = GOAL_ENCRYPTED
        return figures | {"goals": check_goals(figures, goals)}

    def memory(self, topic: Topic, ranges: int) -> dict[str, Any]:
        """Measure the memory of a resend of single offsets, most of which are not written yet."""
        described = self._folder / "workload.json"
        workload = Workload("", topic, ((0, 0),))
        described.write_text(workload.as_json())
        self.fill(topic, described)
        command = self._command(workload)
        bundle = self._folder / "bundle.json"
        head = {"topic": topic.name, "partition": 0, "window_min": 0, "window_max": 0, "gaps": []}
        before, after = json.dumps({"type": "all", "results": [head]}).split("[]")
        with bundle.open("w") as out:
            out.write(f"{before}[[0]")
            out.writelines(f",[{offset}]" for offset in range(2, 2 * ranges, 2))
            out.write(f"]{after}")
        with Receiver(self._receiver, joined=self._joined):
            run = measure_program(command)
        bundle.unlink()
        report = (self._folder / "report.json").read_text()[:4096]
        assert f'"planned": {ranges},' in report, report
        figures = {"ranges": ranges, **{name: run[name] for name in ("wall_s", "cpu_s", "peak_mib")}}
        return figures | {"goals": check_goals(figures, {"peak_mib": GOAL_MIB})}

    def _through(self, receiver: str, command: list[str]) -> dict[str, Any]:
        """Run `command` while a receiver listens, and add the receiver's counts."""
        with Receiver(receiver, joined=self._joined) as listening:
            run = measure_program(command)
        return run | {"packets": int(listening.counted["datagrams"]), "drops": int(listening.counted["drops"])}

    def _command(self, workload: Workload) -> list[str]:
        topic = workload.topic
        entries = [
            {"topic": topic.name, "partition": number, "window_min": 0, "window_max": 0, "gaps": workload.gaps}
            for number in range(topic.partitions)
        ]
        bundle = self._folder / "bundle.json"
        bundle.write_text(json.dumps({"type": "all", "results": entries}))
        settings = {
            "bootstrapServers": self._kafka.bootstrap,
            "targetIP": "127.0.0.1",
            "targetPort": PORT,
            "payloadSize": PAYLOAD_SIZE,
            "resendFileName": bundle,
            "report": self._folder / "report.json",
            "unlimited": "true",
            **workload.settings,
        }
        if workload.encrypted:
            settings["publicKeyFile"] = self._receiver_certificate()
        return [GAPLESS, "resend", *(f"--{name}={value}" for name, value in settings.items())]

    def _receiver_certificate(self) -> Path:
        if not self._certificate.exists():
            subject = ["-subj", "/CN=receiver", "-keyout", str(self._folder / "private.pem")]
            request = ["openssl", "req", "-x509", "-newkey", "rsa:3072", "-noenc", "-days", "30", *subject]
            subprocess.run([*request, "-out", self._certificate], check=True, capture_output=True)
        return self._certificate

    def _check(self, workload: Workload, run: dict[str, Any]) -> None:
        """Check that the resend sent all requested events, and that each datagram is accounted for."""
        report = json.loads((self._folder / "report.json").read_text())
        assert report["ledger"]["sent"] == report["ledger"]["planned"] == workload.events, report["ledger"]
        run["calls"] = report["link"]["systemCalls"]
        assert report["link"]["refused"] == 0, report["link"]
        # With several shards, the last status packet is sent after the traffic has been summed up.
        uncounted = run["packets"] + run["drops"] - report["link"]["datagrams"]
        assert 0 <= uncounted <= int("parallelism" in workload.settings), (run, report["link"])


def check_goals(figures: dict[str, Any], goals: dict[str, float]) -> dict[str, Any]:
    """Return each goal, and whether it is met."""
    return {
        name: {
            "goal": goal,
            "met": figures[name] >= goal if name == "events_per_s" else figures[name] <= goal,
        }
        for name, goal in goals.items()
    }


def machine() -> dict[str, Any]:
    """Return properties of the machine that influence the figures."""
    running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    begun = time.process_time()
    for _ in range(10_000_000):
        pass
    return {
        "loop_ns": round((time.process_time() - begun) * 100, 1),
        "cores": len(os.sched_getaffinity(0)),
        "load_1_min": round(os.getloadavg()[0], 1),
        "runnable": int(running) - 1,
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def show(letter: str, found: dict[str, Any]) -> None:
    missed = [name for name, goal in found["goals"].items() if not goal["met"]]
    beside = {name: found.get(f"ratio_to_{name}") for name in ("c", "consume", "plain")}
    ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in beside.items() if ratio is not None)
    print(
        f"{letter}  {found['title']:45s} {found['events_per_s']:8,}/s {found['wall_s']:6.2f} s "
        f"{found['cpu_s']:6.2f} CPU-s {found['cpu_s_per_million']:7.2f}/M {found['peak_mib']:4} MiB "
        f"{found['calls']:7,} calls {found['drops']:5} drops  {ratios}"
        f"{'  misses ' + ', '.join(missed) if missed else ''}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of records, such as 0.1")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="abcdefgm", help="letters of workloads; m is the memory with a large bundle")
    parser.add_argument("--joined", action="store_true", help="enable UDP GRO in the receiver")
    parser.add_argument("--keep", type=Path, help="folder that keeps the broker's records for the next run")
    parser.add_argument("--output", type=Path, default=Path("build/bench/sender.json"))
    options = parser.parse_args()
    enter_own_network()
    tools = options.output.parent / "sender"
    tools.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"machine": {"before": machine()}, "scale": options.scale, "workloads": {}}
    found = figures["workloads"]
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, KafkaBroker(options.keep) as kafka:
        bench = Bench(kafka, Path(folder), tools, turns=options.turns, joined=options.joined)
        for letter, workload in workloads(options.scale).items():
            if letter in options.only:
                found[letter] = bench.measure(workload)
                show(letter, found[letter])
        if "m" in options.only:
            figures["memory"] = bench.memory(workloads(options.scale)["a"].topic, int(RANGES * options.scale))
            print(f"m  {figures['memory']}", flush=True)
    figures["machine"]["after"] = machine()
    options.output.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{options.output} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
