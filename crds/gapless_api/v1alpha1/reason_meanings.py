"""Owns what each reason of a condition means and what to do about it.

docs/reference/conditions.md is made from this table.
"""

from __future__ import annotations

from typing import NamedTuple

from gapless_api.v1alpha1.reasons import Reason

DIODE, GAP_SCAN, RESEND = "Diode", "GapScan", "Resend"


class Meaning(NamedTuple):
    """Description of a reason."""

    kinds: tuple[str, ...]
    """Kinds whose conditions can have it."""
    meaning: str
    what_to_do: str
    """Empty when there is nothing to do."""


_ALL = (DIODE, GAP_SCAN, RESEND)
_PODS = "Check the events of the pod that the message names"

MEANINGS: dict[Reason, Meaning] = {
    Reason.ACCEPTED: Meaning(_ALL, "The spec is understood, and what it refers to exists.", ""),
    Reason.BAD_CONFIGURATION: Meaning(
        _ALL, "The spec, or a file that it names, is invalid.", "Correct what the message names."
    ),
    Reason.SUSPENDED: Meaning(
        _ALL, "spec.suspend is true; nothing is running and progress is kept.", "Set spec.suspend: false."
    ),
    Reason.NOT_STALLED: Meaning(_ALL, "No manual change is required.", ""),
    Reason.SETTLED: Meaning(_ALL, "Nothing is in progress.", ""),
    Reason.POD_REJECTED: Meaning(
        _ALL,
        "The API server refuses the pod, by pod security, a quota or an admission policy.",
        "Label the sender namespace pod-security.kubernetes.io/enforce=privileged, or raise the quota that is named.",
    ),
    Reason.POD_UNSCHEDULABLE: Meaning(
        _ALL, "No node takes the pod.", "Compare the Diode's nodeSelector and tolerations with the nodes."
    ),
    Reason.IMAGE_PULL_FAILED: Meaning(
        _ALL, "The node cannot get the image.", "Load the image, or correct its name and the pull secret."
    ),
    Reason.MOUNT_FAILED: Meaning(
        _ALL,
        "A Secret, ConfigMap or volume that the spec names does not exist.",
        "Create it; work resumes automatically.",
    ),
    Reason.POD_SLOW: Meaning(
        _ALL,
        "A pod has not started for minutes: its image is still being loaded, or what it mounts is missing.",
        f"{_PODS}; work resumes automatically.",
    ),
    Reason.NODE_LOST: Meaning(
        (DIODE, RESEND),
        "The node of the link is not ready, so the state of its pods is unknown; the message says since when.",
        "Bring the node back, or have another one take over (docs/runbooks/GaplessDiodeNodeLost.md).",
    ),
    Reason.SOURCE_UNREACHABLE: Meaning(
        (GAP_SCAN, RESEND),
        "Kafka cannot be reached or denies access.",
        "Check the KafkaConnection, the brokers and their access rules; it is retried automatically.",
    ),
    Reason.SOURCE_STALLED: Meaning(
        (GAP_SCAN, RESEND),
        "Kafka was reached and stopped answering.",
        "Check the brokers; it is retried automatically.",
    ),
    Reason.STORE_UNREACHABLE: Meaning(
        (GAP_SCAN, RESEND),
        "The S3-compatible store cannot be reached or denies access.",
        "Check the StorageLocation: endpoint, bucket and credentials; it is retried automatically.",
    ),
    Reason.STORAGE_FAILED: Meaning(
        (GAP_SCAN, RESEND), "A volume or store cannot be written.", "Check the claim or bucket that the message names."
    ),
    Reason.STOPPED: Meaning(_ALL, "The pod was stopped; progress is saved.", "None; work resumes automatically."),
    Reason.KAFKA_CONNECTION_NOT_FOUND: Meaning(
        (GAP_SCAN, RESEND),
        "There is no KafkaConnection of that name in this namespace, or it is invalid.",
        "Ask the platform team for it, or correct spec.kafkaRef; work resumes automatically.",
    ),
    Reason.STORAGE_LOCATION_NOT_FOUND: Meaning(
        (GAP_SCAN, RESEND),
        "There is no StorageLocation of that name in this namespace, or it is invalid.",
        "Ask the platform team for it, or correct the storageRef; work resumes automatically.",
    ),
    Reason.WRITE_REFUSED: Meaning(
        _ALL,
        "The API server refuses an object that the operator writes: a quota, an admission policy or a missing right.",
        "Remove the cause that the message names; it is retried automatically.",
    ),
    Reason.DEFECT: Meaning(_ALL, "An internal error of Gapless.", "Report it with the operator's log."),
    Reason.PREFLIGHT_PENDING: Meaning((DIODE,), "The preflight check has not run yet.", f"{_PODS} if this lasts."),
    Reason.PREFLIGHT_FAILED: Meaning((DIODE,), "The preflight check of the node failed.", f"{_PODS}."),
    Reason.LINK_READY: Meaning((DIODE,), "The interface on the node is ready.", ""),
    Reason.NIC_MISSING: Meaning(
        (DIODE,), "The node has no such interface.", "Correct spec.nic or spec.nodeSelector (ip link on the node)."
    ),
    Reason.NIC_DOWN: Meaning((DIODE,), "The interface is down.", "On the node: ip link set dev NIC up."),
    Reason.NO_CARRIER: Meaning((DIODE,), "The interface has no carrier.", "Check the cable."),
    Reason.PAYLOAD_TOO_LARGE: Meaning(
        (DIODE,), "A datagram of spec.payloadSize exceeds the interface's MTU.", "Lower payloadSize, or write 0."
    ),
    Reason.NEIGHBOUR_MISSING: Meaning(
        (DIODE,),
        "There is no permanent neighbour entry for the target; no ARP reply comes back through a diode.",
        "On the node: ip neigh replace TARGET lladdr MAC nud permanent dev NIC.",
    ),
    Reason.WINDOW_OVERLAP: Meaning(
        (DIODE,),
        "Another Diode's partitionWindow claims the same downstream partitions.",
        "Give the two Diodes windows that do not overlap.",
    ),
    Reason.SHARED_KEY_LANE: Meaning(
        (DIODE, RESEND),
        "The live stream and encrypted resends share a receiver, which knows one key for all.",
        "Give resends a receiver port of their own and set sharedWithLiveStream: false.",
    ),
    Reason.SCHEDULED: Meaning((GAP_SCAN,), "The next scan is scheduled.", ""),
    Reason.SCANNING: Meaning((GAP_SCAN,), "A scan is running.", ""),
    Reason.NEVER_SCANNED: Meaning((GAP_SCAN,), "No scan has ended yet.", ""),
    Reason.GAPS_FOUND: Meaning(
        (GAP_SCAN,), "Events are missing.", "Carry status.resendManifest to the sending side and apply it there."
    ),
    Reason.NOTHING_MISSING: Meaning((GAP_SCAN,), "Nothing is missing.", ""),
    Reason.NOTHING_TO_DO: Meaning((GAP_SCAN,), "The topics contain no gap records.", "Check the topics."),
    Reason.UNKNOWN_EVENTS: Meaning(
        (GAP_SCAN,),
        "Kafka deleted records before an audit read them; whether status.unknownEvents are missing is unknown.",
        "Audit more often than records expire; source.events.includeUnknown: true sends these events again.",
    ),
    Reason.UNREADABLE_RECORDS: Meaning(
        (GAP_SCAN,),
        "Some gap records cannot be read, and the others were counted; or an audit has not found a single event.",
        "See who else writes that topic, and whether it is the right one.",
    ),
    Reason.TOPIC_MISSING: Meaning((GAP_SCAN,), "The topic does not exist.", "Correct spec.source."),
    Reason.ENGINE_UNAVAILABLE: Meaning(
        (GAP_SCAN,),
        "engine.type is SparkApplication and the cluster has no such CRD.",
        "Install the Spark operator, or set engine.type: Auto or Job.",
    ),
    Reason.NO_SPARK_OPERATOR: Meaning(
        (GAP_SCAN,),
        "An event: engine.type is Auto and the cluster has no Spark operator, so scans run as Jobs, without executors.",
        "None if one pod is enough; else install the Spark operator. With engine.type: Job the event does not come.",
    ),
    Reason.START_DEADLINE_EXCEEDED: Meaning(
        (GAP_SCAN,), "The scan did not start within engine.startDeadlineSeconds.", f"{_PODS}."
    ),
    Reason.RUN_DEADLINE_EXCEEDED: Meaning(
        (GAP_SCAN,), "The scan did not end within engine.runDeadlineSeconds.", "Raise it, or give the engine more."
    ),
    Reason.SCAN_FAILED: Meaning((GAP_SCAN,), "The scan ended with an error.", "See status.lastAttempt.message."),
    Reason.RESULT_TOO_LARGE: Meaning(
        (GAP_SCAN,), "The bundle does not fit into a ConfigMap.", "Name a StorageLocation in output.storageRef."
    ),
    Reason.RESULT_UNREADABLE: Meaning(
        (GAP_SCAN,),
        "The pod succeeded, but its result cannot be read.",
        "Use the Spark image and the operator of one release.",
    ),
    Reason.ALL_CLOSED: Meaning(
        (GAP_SCAN,), "Everything that the previous bundle listed has arrived, or can never arrive.", ""
    ),
    Reason.NOTHING_WAS_MISSING: Meaning((GAP_SCAN,), "The previous bundle listed nothing.", ""),
    Reason.STILL_MISSING: Meaning(
        (GAP_SCAN,),
        "Some events of the previous bundle are still missing.",
        "If they were sent again: check the Resend, and send with more copies or a lower rate.",
    ),
    Reason.NOT_ALL_LOOKED_AT: Meaning(
        (GAP_SCAN,),
        "No event of the previous bundle is known to be missing, but the scan could not check all of them.",
        "Set source.events.expect or manifest, or audit (source.events).",
    ),
    Reason.NOTHING_TO_COMPARE_WITH: Meaning((GAP_SCAN,), "There is no previous bundle.", "Wait for the next scan."),
    Reason.NOT_COMPARABLE: Meaning(
        (GAP_SCAN,),
        "The previous scan had a different source, or its bundle is not readable for this scan's pod.",
        "None; the next scan is compared again.",
    ),
    Reason.COMPARISON_FAILED: Meaning(
        (GAP_SCAN,), "The previous bundle could not be read, or has changed.", "See the message."
    ),
    Reason.COMPACTED: Meaning((GAP_SCAN,), "The gaps topic keeps the latest record of every window.", ""),
    Reason.NOT_COMPACTED: Meaning(
        (GAP_SCAN,),
        "Records of the gaps topic expire, so offsets without a record are unknown and do not count as closed.",
        "Set cleanup.policy to compact (docs/procedures/gaps-topic.md), and audit (source.events) what has arrived.",
    ),
    Reason.POLICY_UNKNOWN: Meaning(
        (GAP_SCAN,),
        "The cleanup.policy of the gaps topic could not be read; offsets without a record do not count as closed.",
        "Allow DescribeConfigs on the topic (docs/procedures/gaps-topic.md).",
    ),
    Reason.NOT_A_GAP_TOPIC: Meaning((GAP_SCAN,), "The last scan was an audit, which needs no gaps topic.", ""),
    Reason.DIODE_NOT_FOUND: Meaning(
        (RESEND,), "There is no Diode of that name in this namespace.", "Create it, or correct spec.diodeRef."
    ),
    Reason.DIODE_INVALID: Meaning(
        (RESEND,),
        "The Diode's spec is invalid, so nothing is sent over it; what ran is stopped and progress is kept.",
        "Correct what the message names in the Diode; work resumes automatically.",
    ),
    Reason.DIODE_SUSPENDED: Meaning(
        (RESEND,),
        "spec.suspend of the Diode is true; nothing is sent over it and progress is kept.",
        "Set spec.suspend of the Diode to false (docs/runbooks/GaplessDiodeSuspended.md).",
    ),
    Reason.DIODE_NOT_READY: Meaning((RESEND,), "The Diode is not ready.", "See the conditions of the Diode."),
    Reason.BUNDLE_NOT_FOUND: Meaning(
        (RESEND,), "The bundle does not exist at the location in the spec.", "Copy it there."
    ),
    Reason.FILTER_RULES_NOT_FOUND: Meaning(
        (RESEND,), "The ConfigMap of spec.inputFilter.rulesFrom does not exist.", "Create the ConfigMap."
    ),
    Reason.BAD_BUNDLE: Meaning(
        (RESEND,),
        "The bundle is cut short, altered, not the one with spec.bundle.sha256, or signed by none of the Diode's "
        "trustedKeys.",
        "Transfer it again, or sign it where it was created.",
    ),
    Reason.QUEUED: Meaning(
        (RESEND,), "Other Resends of the Diode run first, by priority, then by age.", "Raise spec.priority if urgent."
    ),
    Reason.KEY_LANE_BUSY: Meaning((RESEND,), "Another encrypted resend uses the receiver; one at a time.", ""),
    Reason.PLANNING: Meaning((RESEND,), "The plan is being computed.", ""),
    Reason.PLANNED: Meaning((RESEND,), "status.plan is complete; nothing was sent.", "Set spec.mode: Send to send it."),
    Reason.STARTING: Meaning((RESEND,), "The sender pods are being started.", f"{_PODS} if this lasts."),
    Reason.SENDING: Meaning((RESEND,), "Events are being sent.", ""),
    Reason.RETRYING: Meaning((RESEND,), "An attempt failed; the next one is scheduled.", "See the message."),
    Reason.SENT: Meaning((RESEND,), "Everything was sent, filtered or filled.", ""),
    Reason.NOTHING_TO_SEND: Meaning((RESEND,), "The selection holds no event of this Diode's window.", ""),
    Reason.ALREADY_SENT: Meaning(
        (RESEND,),
        "According to the Diode's ledger, the same work was already sent; nothing was sent again.",
        "To send it again, set spec.force to a new value.",
    ),
    Reason.LEDGER_UNREADABLE: Meaning(
        (RESEND,),
        "A ConfigMap of the Diode's ledger cannot be read, so it is unknown whether the same was sent before.",
        "Restore it, or delete it and set spec.notBefore of the Diode.",
    ),
    Reason.TOO_OLD: Meaning(
        (RESEND,),
        "The work is older than the Diode's spec.notBefore, so it may have been sent already.",
        "To send it, set spec.force to a new value.",
    ),
    Reason.INCOMPLETE: Meaning(
        (RESEND,),
        "Finished, and status.unavailable lists events that could not be sent.",
        "Decide whether to fill them (unavailable: Fill) in a new Resend.",
    ),
    Reason.LOG_UNREADABLE: Meaning(
        (RESEND,),
        "The senders have ended, and the log with their report cannot be read yet; other Resends run meanwhile.",
        "Check the kubelet of the node that the message names.",
    ),
    Reason.REPORT_UNREADABLE: Meaning(
        (RESEND,),
        "The senders succeeded, but their report cannot be read, so the ledger has no entry.",
        "Use sender image and operator of one release, then change the spec: work resumes from the checkpoints.",
    ),
    Reason.LINK_FAILED: Meaning((RESEND,), "The link did not accept datagrams.", "Check the Diode and its node."),
    Reason.DEADLINE_EXCEEDED: Meaning(
        (RESEND,),
        "The Resend did not finish within activeDeadlineSeconds; progress is in status.",
        "Raise activeDeadlineSeconds, or set retry.",
    ),
    Reason.BACKOFF_LIMIT_EXCEEDED: Meaning(
        (RESEND,),
        "The Resend failed more often than backoffLimit allows.",
        "Remove the cause and set spec.retry to a new value.",
    ),
}
