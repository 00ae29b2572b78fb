"""Owns what each reason of a condition means and what to do about it.

docs/reference/conditions.md is made from this table.
"""

from __future__ import annotations

from gapless_api.v1alpha1.mirror_meanings import MIRROR_MEANINGS
from gapless_api.v1alpha1.reason_meaning import (
    ALL,
    ARCHIVE,
    CONNECTION,
    DIODE,
    GAP_SCAN,
    MIRROR,
    ON_SPARK,
    PODS,
    READERS,
    RESEND,
    RESTORE,
    STORERS,
    WITH_PODS,
    Meaning,
)
from gapless_api.v1alpha1.reasons import Reason

MEANINGS: dict[Reason, Meaning] = {
    Reason.ACCEPTED: Meaning(ALL, "The spec is understood, and what it refers to exists.", ""),
    Reason.BAD_CONFIGURATION: Meaning(
        WITH_PODS, "The spec, or a file that it names, is invalid.", "Correct what the message names."
    ),
    Reason.SUSPENDED: Meaning(
        ALL, "spec.suspend is true; nothing is running and progress is kept.", "Set spec.suspend: false."
    ),
    Reason.NOT_STALLED: Meaning(WITH_PODS, "No manual change is required.", ""),
    Reason.SETTLED: Meaning(WITH_PODS, "Nothing is in progress.", ""),
    Reason.POD_REJECTED: Meaning(
        WITH_PODS,
        "The API server refuses the pod, by pod security, a quota or an admission policy.",
        "Raise the quota, or change the policy that the message names. Only the senders' namespace needs the label "
        "pod-security.kubernetes.io/enforce=privileged.",
    ),
    Reason.POD_UNSCHEDULABLE: Meaning(
        WITH_PODS,
        "No node takes the pod.",
        "Compare the nodes with the requests of the pod; for a Diode or Resend, with the Diode's nodeSelector and "
        "tolerations.",
    ),
    Reason.IMAGE_PULL_FAILED: Meaning(
        WITH_PODS, "The node cannot get the image.", "Load the image, or correct its name and the pull secret."
    ),
    Reason.MOUNT_FAILED: Meaning(
        WITH_PODS,
        "A Secret, ConfigMap or volume that the spec names does not exist.",
        "Create it; work resumes automatically.",
    ),
    Reason.POD_SLOW: Meaning(
        WITH_PODS,
        "A pod has not started for minutes: its image is still being loaded, or what it mounts is missing.",
        f"{PODS}; work resumes automatically.",
    ),
    Reason.NODE_LOST: Meaning(
        (ARCHIVE, DIODE, MIRROR, RESEND, RESTORE),
        "The node of the link, or of a pod, is not ready, so the state of its pods is unknown; the message says more.",
        "Diode and Resend: bring the node back, or have another one take over (docs/runbooks/GaplessDiodeNodeLost.md). "
        "Others: none; another pod takes over.",
    ),
    Reason.SOURCE_UNREACHABLE: Meaning(
        (*READERS, CONNECTION),
        "Kafka cannot be reached or denies access.",
        "Check the KafkaConnection, the brokers and their access rules; it is retried automatically.",
    ),
    Reason.SOURCE_STALLED: Meaning(
        (*READERS, CONNECTION),
        "Kafka was reached and stopped answering.",
        "Check the brokers; it is retried automatically.",
    ),
    Reason.STORE_UNREACHABLE: Meaning(
        STORERS,
        "The S3-compatible store cannot be reached or denies access.",
        "Check the StorageLocation: endpoint, bucket and credentials; it is retried automatically.",
    ),
    Reason.STORAGE_FAILED: Meaning(
        STORERS, "A volume or store cannot be written.", "Check the claim or bucket that the message names."
    ),
    Reason.STOPPED: Meaning(WITH_PODS, "The pod was stopped; progress is saved.", "None; work resumes automatically."),
    Reason.KAFKA_CONNECTION_NOT_FOUND: Meaning(
        READERS,
        "There is no KafkaConnection of that name in this namespace, or it is invalid.",
        "Ask the platform team for it, or correct the name in the spec; work resumes automatically.",
    ),
    Reason.STORAGE_LOCATION_NOT_FOUND: Meaning(
        STORERS,
        "There is no StorageLocation of that name in this namespace, or it is invalid.",
        "Ask the platform team for it, or correct the storageRef; work resumes automatically.",
    ),
    Reason.WRITE_REFUSED: Meaning(
        WITH_PODS,
        "The API server refuses an object that the operator writes: a quota, an admission policy or a missing right.",
        "Remove the cause that the message names; it is retried automatically.",
    ),
    Reason.DEFECT: Meaning(WITH_PODS, "An internal error of Gapless.", "Report it with the operator's log."),
    Reason.PREFLIGHT_PENDING: Meaning((DIODE,), "The preflight check has not run yet.", f"{PODS} if this lasts."),
    Reason.PREFLIGHT_FAILED: Meaning((DIODE,), "The preflight check of the node failed.", f"{PODS}."),
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
    Reason.SCHEDULED: Meaning((ARCHIVE, GAP_SCAN), "The next run is scheduled.", ""),
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
        ON_SPARK,
        "engine.type (Mirror: spark.type) is SparkApplication and the cluster has no such CRD.",
        "Install the Spark operator, or set it to Auto or Job.",
    ),
    Reason.NO_SPARK_OPERATOR: Meaning(
        ON_SPARK,
        "An event: engine.type is Auto and the cluster has no Spark operator, so a Job runs, without executors.",
        "None if one pod is enough; else install the Spark operator. With engine.type: Job the event does not come.",
    ),
    Reason.START_DEADLINE_EXCEEDED: Meaning(
        ON_SPARK, "The driver did not start within engine.startDeadlineSeconds.", f"{PODS}."
    ),
    Reason.RUN_DEADLINE_EXCEEDED: Meaning(
        (ARCHIVE, GAP_SCAN), "The run did not end within runDeadlineSeconds.", "Raise it, or give the engine more."
    ),
    Reason.SCAN_FAILED: Meaning((GAP_SCAN,), "The scan ended with an error.", "See status.lastAttempt.message."),
    Reason.RESULT_TOO_LARGE: Meaning(
        (GAP_SCAN,), "The bundle does not fit into a ConfigMap.", "Name a StorageLocation in output.storageRef."
    ),
    Reason.RESULT_UNREADABLE: Meaning(
        ON_SPARK,
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
    Reason.PLANNING: Meaning((RESEND, RESTORE), "The plan is being computed.", ""),
    Reason.PLANNED: Meaning(
        (RESEND, RESTORE),
        "status.plan is complete; nothing was sent or written.",
        "Set spec.mode: Send (Resend), or Once or Follow (Restore).",
    ),
    Reason.STARTING: Meaning((MIRROR, RESEND, RESTORE), "The pods are being started.", f"{PODS} if this lasts."),
    Reason.SENDING: Meaning((RESEND,), "Events are being sent.", ""),
    Reason.RETRYING: Meaning(
        (ARCHIVE, MIRROR, RESEND, RESTORE), "An attempt failed; another one follows.", "See the message."
    ),
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
        (RESEND, RESTORE),
        "Finished, and status.unavailable (Resend) or status.lost (Restore) lists what could not be had.",
        "Resend: decide whether to fill them (unavailable: Fill), or name an archive (fallback), in a new Resend. "
        "Restore: check the segments (gapless segments verify).",
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
        (RESEND, RESTORE),
        "It failed more often than backoffLimit allows.",
        "Remove the cause and set spec.retry to a new value.",
    ),
    Reason.ARCHIVE_NOT_FOUND: Meaning(
        (RESEND, RESTORE),
        "There is no Archive of that name in this namespace, or it is invalid.",
        "Create it, or name the place itself (storageRef and region).",
    ),
    Reason.ARCHIVING: Meaning((ARCHIVE,), "Topics are being archived.", ""),
    Reason.ARCHIVED: Meaning((ARCHIVE,), "The last scheduled run archived what there was.", ""),
    Reason.NEVER_ARCHIVED: Meaning((ARCHIVE,), "Nothing has been archived yet.", f"{PODS} if this lasts."),
    Reason.RETENTION_OVERTAKING: Meaning(
        (ARCHIVE,),
        "Kafka will soon delete records that are not archived yet.",
        "Raise retention.ms, or give the engine more (docs/runbooks/GaplessArchiveRetentionOvertaking.md).",
    ),
    Reason.RECORDS_LOST: Meaning(
        (ARCHIVE,),
        "Kafka deleted records before they were archived; status.lostRecords counts them.",
        "They cannot be had back. Raise retention.ms of the topics, or give the engine more.",
    ),
    Reason.TOPIC_RECREATED: Meaning(
        (ARCHIVE, MIRROR),
        "A topic was deleted and recreated. An Archive keeps the new one as another generation; a Mirror stops copying "
        "it, because its positions mean nothing any more.",
        "Archive: none if that was intended; a Restore chooses one of them by spec.generation. Mirror: decide by "
        "spec.onDataLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.NO_PROGRESS: Meaning(
        (ARCHIVE, RESTORE),
        "The pod runs and nothing becomes less.",
        f"{PODS}, and its log (docs/runbooks/GaplessArchiveNoProgress.md).",
    ),
    Reason.ARCHIVE_FAILED: Meaning(
        (ARCHIVE,), "Archiving ended with an error; it is tried again.", "See status.lastAttempt.message."
    ),
    Reason.COMPACTING: Meaning((ARCHIVE,), "Segments are being compacted.", ""),
    Reason.COMPACTION_DONE: Meaning((ARCHIVE,), "An event, and an outcome: a compaction has ended.", ""),
    Reason.COMPACTION_FAILED: Meaning(
        (ARCHIVE,), "A compaction ended with an error; nothing is lost.", "See status.compaction.lastAttempt.message."
    ),
    Reason.RESTORING: Meaning((RESTORE,), "Records are being written.", ""),
    Reason.FOLLOWING: Meaning((RESTORE,), "Everything is restored, and what is archived later is restored, too.", ""),
    Reason.RESTORED: Meaning((RESTORE,), "Everything was restored.", ""),
    Reason.NOTHING_TO_RESTORE: Meaning((RESTORE,), "The archive holds nothing that is chosen.", "Check spec.topics."),
    Reason.RESTORE_FAILED: Meaning(
        (RESTORE,), "Restoring ended with an error; it is tried again.", "See status.lastAttempt.message."
    ),
    **MIRROR_MEANINGS,
}
"""By reason."""
