"""``gapless mirror`` and ``gapless doctor`` understand every setting that the operator gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapless_api.base.settings import kebab, resolve
from gapless_mirror.settings.limits_file import read_rates
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.settings.typed import MirrorSettings

Make = Callable[..., Any]
SECURE = {
    "bootstrapServers": "north:9093",
    "tls": {"caSecret": {"name": "ca"}, "clientSecret": {"name": "client", "passwordKey": "password"}},
    "allowedTopics": ["orders*"],
    "access": ["Read", "Write"],
}


def understood(orders: Any, folder: Path) -> dict[str, Any]:
    """The settings of the newest attempt as ``gapless mirror`` reads them, with its arguments."""
    data = orders.objects["ConfigMap", f"{orders.begun[-1]}-settings"]["data"]
    file = folder / "mirror.properties"
    file.write_text(data["mirror.properties"])
    _, _, *given = orders.attempt()["spec"]["template"]["spec"]["containers"][0]["args"]
    names = {kebab(setting.name): setting.name for setting in MIRROR.settings}
    options = {names[option]: value for option, value in (one.removeprefix("--").split("=", 1) for one in given)}
    found = resolve(MIRROR, file=file, environment={}, options=options)
    assert not found.ignored
    return found.values


def test_the_mirror_understands_its_settings(mirror: Make, tmp_path: Path) -> None:
    orders = mirror(
        topicPrefixes=["orders-"],
        topicPattern="orders[0-9]+",
        exclude=["orders-test*"],
        startAtGroup="old-mirror",
        sourceName="north",
        targetName="hall",
        rename="{source}.{topic}",
        createTopics=False,
        lanes=4,
        delivery="AtLeastOnce",
        compression="zstd",
        onDataLoss="SkipAndRecord",
        onBadRecord="Park",
        parkingTopic="north.parked",
        provenance="Always",
        heartbeat=True,
        groups={"names": ["a", "b"], "prefixes": ["billing-"], "pattern": "x.*", "intervalSeconds": 30},
        limits={"maxBytesPerSecond": 70_000},
    )
    orders.kafkas["north"] = SECURE
    orders.kafkas["hall"]["allowedGroups"] = ["billing-*", "x"]
    orders.step()
    found = understood(orders, tmp_path)
    told = MirrorSettings.of(found)
    assert (told.name, told.engine, told.workers, told.lanes) == ("mirrors.orders", "workers", 1, 4)
    assert told.start_at_group == "old-mirror"
    assert (told.delivery, told.compression, told.on_data_loss) == ("at-least-once", "zstd", "skip-and-record")
    assert (told.on_bad_record, told.parks_in) == ("park", "north.parked")
    assert (told.heartbeat, told.metrics_port, str(told.limits_file)) == (True, 9464, "/etc/gapless/limits.properties")
    assert (found["topics"], found["topicPrefix"]) == (("orders",), ("orders-",))
    assert found["topicPattern"].fullmatch("orders12")
    assert (found["rename"], found["createTopics"]) == ("{source}.{topic}", False)
    assert (found["sourceName"], found["targetName"]) == ("north", "hall")
    assert (found["provenance"], found["groups"], found["groupPrefix"]) == ("always", ("a", "b"), ("billing-",))
    assert (found["groupPattern"].pattern, found["groupInterval"]) == ("x.*", 30.0)
    assert str(found["sourceKeyPasswordFile"]) == "/etc/gapless/secrets/source/kafka-key-password"
    assert str(found["targetSaslPasswordFile"]) == "/etc/gapless/secrets/target/kafka-password"
    assert found["sourceAllowedTopics"].allow("orders-7")
    allowed = [group for group in ("a", "billing-1", "x", "xy") if found["allowedGroups"].allow(group)]
    assert allowed == ["billing-1", "x"]
    assert not found["sourceAllowedTopics"].allow("alarm")
    assert found["targetAllowedTopics"].allow("north.orders")


def test_the_mirror_understands_its_limits(mirror: Make, tmp_path: Path) -> None:
    orders = mirror(limits={"maxBytesPerSecond": 70_000, "maxRecordsPerSecond": 900}, workers={"count": 2})
    orders.step()
    file = tmp_path / "limits.properties"
    file.write_text(orders.objects["ConfigMap", "orders-owner-ui-limits"]["data"]["limits.properties"])
    rates = read_rates(file, MirrorSettings.of(understood(orders, tmp_path)).rates(1), 1)
    assert (rates.bytes_per_second, rates.records_per_second) == (35_000, 450)


def test_spark_understands_its_settings(mirror: Make, tmp_path: Path) -> None:
    orders = mirror(engine="Spark", spark={"driver": {"cores": 2, "memory": "2Gi"}})
    orders.step()
    found = understood(orders, tmp_path)
    assert (found["engine"], found["master"], found["driverMemory"]) == ("spark", "local[2]", "2048m")
