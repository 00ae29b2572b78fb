"""The settings of the peer's programs, and why a command of ours ignores them in a properties file.

One properties file often serves several of the peer's programs. A command logs the keys that it ignores, while an
unknown key is an error. Must not know which settings our commands have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved, Setting

_SENDING = "it is for programs that send over the link"
_LIVE = "it is for the live sender (upstream) only"
_RECEIVING = "it is for the receiver (downstream) only"
_TCP = "it belongs to the TCP transport of the live stream"
_RESEND = "it selects what resend sends"
_REPORTS = "only long-running programs print statistics"

PEER_SETTINGS: Mapping[str, str] = {
    # All programs.
    "id": "it names a sender or a receiver in its status lines",
    "bootstrapServers": "this command reads no Kafka",
    "topic": "this command reads no topic",
    "groupID": "this command reads no Kafka",
    "certFile": "this command opens no TLS connection",
    "keyFile": "this command opens no TLS connection",
    "keyPasswordFile": "this command opens no TLS connection",
    "caFile": "this command opens no TLS connection",
    "logLevel": "this command writes no log",
    "logFileName": "this command writes no log",
    "logStatistics": _REPORTS,
    # upstream and resend.
    "nic": _SENDING,
    "targetIP": _SENDING,
    "targetPort": _SENDING,
    "payloadSize": _SENDING,
    "encryption": _SENDING,
    "publicKeyFile": _SENDING,
    "generateNewSymmetricKeyEvery": _SENDING,
    "eps": _SENDING,
    "compressWhenLengthExceeds": _SENDING,
    "inputFilterRules": _SENDING,
    "inputFilterDefaultAction": _SENDING,
    "inputFilterTimeout": _SENDING,
    "partitionStartValue": "it shifts the partition numbers that a sender writes into ids",
    "from": "it limits what a sender reads",
    # upstream.
    "source": _LIVE,
    "sendingThreads": _LIVE,
    "deliverFilter": _LIVE,
    "topicTranslations": "it renames topics between the id and Kafka",
    "transport": _LIVE,
    "tcp*": _TCP,
    # resend.
    "to": _RESEND,
    "partition": _RESEND,
    "offsetFrom": _RESEND,
    "offsetTo": _RESEND,
    "partitionStopValue": _RESEND,
    # create and resend.
    "limit": "it selects all gaps or the first one of each partition when a bundle is written",
    "resendFileName": "it names the bundle",
    "resultFileName": "the peer's create ignores it; resendFileName names the bundle",
    # gaps.
    "mode": "it is for the viewer of gaps only",
    # downstream.
    "target": _RECEIVING,
    "internalTopic": _RECEIVING,
    "privateKeyFiles": _RECEIVING,
    "numReceivers": _RECEIVING,
    "mtu": _RECEIVING,
    "readBufferMultiplier": _RECEIVING,
    "batchSize": _RECEIVING,
    "maximumDecompressSize": _RECEIVING,
    "keyExchangeMinIntervalSecs": _RECEIVING,
    "maxCacheEntries": _RECEIVING,
    "maxNrMessages": _RECEIVING,
    "clientId": _RECEIVING,
    "channelBufferSize": _RECEIVING,
    "rcvBufSize": _RECEIVING,
    "enableRxqOvfl": _RECEIVING,
    "maxTCPConnections": _RECEIVING,
    "verbose": "no program of the peer reads it; logLevel=DEBUG logs more",
}
"""All settings of the peer's programs, and in its shipped files, and why other programs ignore them.

A name that ends with ``*`` is a prefix.
"""


def foreign_settings(own: Iterable[Setting]) -> dict[str, str]:
    """Return the settings of the peer that a command does not have itself, for `SettingsTable.foreign`."""
    names = {name for setting in own for name in (setting.name, *setting.aliases)}
    return {name: why for name, why in PEER_SETTINGS.items() if name not in names}


def is_peer_call(found: Resolved) -> bool:
    """Return whether a command was called as the peer's program: with a file, and nothing under a name of ours."""
    return found.file is not None and all(name in PEER_SETTINGS for name in found.spellings.values())
