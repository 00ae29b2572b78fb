"""The meaning of each reason and the required action.

docs/reference/conditions.md is generated from this table.
"""

from __future__ import annotations

from gapless_api.v1alpha1.copy_meanings import COPY_MEANINGS
from gapless_api.v1alpha1.reasons import (
    ALL,
    ARCHIVE,
    CHECK_POD_EVENTS,
    CONNECTION,
    DIODE,
    GAP_SCAN,
    KAFKA_CLIENTS,
    MIRROR,
    ON_SPARK,
    RESEND,
    RESTORE,
    STORE_CLIENTS,
    WITH_PODS,
    Meaning,
    Reason,
)

MEANINGS: dict[Reason, Meaning] = {
    Reason.ACCEPTED: Meaning(ALL, "The spec is valid, and the objects that it refers to exist.", ""),
    Reason.BAD_CONFIGURATION: Meaning(
        WITH_PODS, "The spec, or a file that it names, is invalid.", "Correct the field or file that the message names."
    ),
    Reason.SUSPENDED: Meaning(
        ALL,
        "spec.suspend is true, or the namespace is suspended. Progress is kept; the message says what still runs.",
        "Set spec.suspend: false, or remove the annotation gapless.dev/suspend from the namespace.",
    ),
    Reason.NOT_STALLED: Meaning(WITH_PODS, "No manual change is required.", ""),
    Reason.SETTLED: Meaning(WITH_PODS, "Nothing is in progress.", ""),
    Reason.POD_REJECTED: Meaning(
        WITH_PODS,
        "The API server rejects the pod because of pod security, a quota or an admission policy.",
        "Raise the quota, or change the policy that the message names. Only the senders' namespace needs the label "
        "pod-security.kubernetes.io/enforce=privileged.",
    ),
    Reason.POD_UNSCHEDULABLE: Meaning(
        WITH_PODS,
        "The pod cannot be scheduled on any node.",
        "Check the resource requests of the pod; for a Diode or Resend, also the Diode's nodeSelector and tolerations.",
    ),
    Reason.IMAGE_PULL_FAILED: Meaning(
        WITH_PODS, "The node cannot pull the image.", "Load the image, or correct its name or the pull secret."
    ),
    Reason.MOUNT_FAILED: Meaning(
        WITH_PODS,
        "A Secret, ConfigMap or volume that the spec names does not exist.",
        "Create it; the work resumes automatically.",
    ),
    Reason.POD_SLOW: Meaning(
        WITH_PODS,
        "A pod has not started for minutes: its image is still being pulled, or an object that it mounts is missing.",
        f"{CHECK_POD_EVENTS}; the work resumes automatically.",
    ),
    Reason.PROGRESS_UNKNOWN: Meaning(
        (ARCHIVE, MIRROR, RESTORE),
        "The log of no pod could be read for 2 minutes (Mirror) or 15 minutes (Archive and Restore). The status shows "
        "no lag, rate or remaining time.",
        "Check the node that runs the pod, and its kubelet (docs/runbooks/GaplessProgressUnknown.md).",
    ),
    Reason.NODE_LOST: Meaning(
        (ARCHIVE, DIODE, MIRROR, RESEND, RESTORE),
        "The node of the link, or of a pod, is not ready, so the state of its pods is unknown.",
        "Diode and Resend: recover the node, or replace it (docs/runbooks/GaplessDiodeNodeLost.md). Others: none; "
        "another pod takes over.",
    ),
    Reason.SOURCE_UNREACHABLE: Meaning(
        (*KAFKA_CLIENTS, CONNECTION),
        "Kafka cannot be reached or denies access.",
        "Check the KafkaConnection, the brokers and their ACLs. The operator retries automatically.",
    ),
    Reason.SOURCE_STALLED: Meaning(
        (*KAFKA_CLIENTS, CONNECTION),
        "Kafka was reached but stopped responding.",
        "Check the brokers. The operator retries automatically.",
    ),
    Reason.STORE_UNREACHABLE: Meaning(
        STORE_CLIENTS,
        "The S3-compatible store cannot be reached or denies access.",
        "Check the StorageLocation: endpoint, bucket and credentials. The operator retries automatically.",
    ),
    Reason.STORAGE_FAILED: Meaning(
        STORE_CLIENTS, "Writing to a volume or store failed.", "Check the claim or bucket that the message names."
    ),
    Reason.STOPPED: Meaning(
        WITH_PODS, "The pod was stopped; progress is saved.", "None; the work resumes automatically."
    ),
    Reason.KAFKA_CONNECTION_NOT_FOUND: Meaning(
        KAFKA_CLIENTS,
        "The KafkaConnection does not exist in this namespace, or it is invalid.",
        "Ask the platform team to create it, or correct the name in the spec; the work resumes automatically.",
    ),
    Reason.STORAGE_LOCATION_NOT_FOUND: Meaning(
        STORE_CLIENTS,
        "The StorageLocation does not exist in this namespace, or it is invalid.",
        "Ask the platform team to create it, or correct the storageRef; the work resumes automatically.",
    ),
    Reason.WRITE_REFUSED: Meaning(
        WITH_PODS,
        "The API server rejects an object that the operator writes, because of a quota, an admission policy or missing "
        "permissions.",
        "Remove the cause that the message names. The operator retries automatically.",
    ),
    Reason.DEFECT: Meaning(WITH_PODS, "An internal error of Gapless.", "Report it with the operator's log."),
    Reason.PREFLIGHT_PENDING: Meaning(
        (DIODE,), "The preflight check has not run yet.", f"{CHECK_POD_EVENTS} if this lasts."
    ),
    Reason.PREFLIGHT_FAILED: Meaning((DIODE,), "The preflight check of the node failed.", f"{CHECK_POD_EVENTS}."),
    Reason.LINK_READY: Meaning((DIODE,), "The interface on the node is ready.", ""),
    Reason.NIC_MISSING: Meaning(
        (DIODE,),
        "The node does not have the interface.",
        "Correct spec.nic or spec.nodeSelector (ip link on the node).",
    ),
    Reason.NIC_DOWN: Meaning((DIODE,), "The interface is down.", "On the node: ip link set dev NIC up."),
    Reason.NO_CARRIER: Meaning((DIODE,), "The interface has no carrier.", "Check the cable."),
    Reason.PAYLOAD_TOO_LARGE: Meaning(
        (DIODE,), "A datagram of spec.payloadSize exceeds the interface's MTU.", "Lower payloadSize, or set it to 0."
    ),
    Reason.NEIGHBOUR_MISSING: Meaning(
        (DIODE,),
        "The node has no permanent neighbour entry for the target, and no ARP reply can return through a diode.",
        "On the node: ip neigh replace TARGET lladdr MAC nud permanent dev NIC.",
    ),
    Reason.WINDOW_OVERLAP: Meaning(
        (DIODE,),
        "The partitionWindow overlaps that of another Diode.",
        "Correct the partitionWindow of one of the two Diodes.",
    ),
    Reason.SHARED_KEY_LANE: Meaning(
        (DIODE, RESEND),
        "The live stream and encrypted resends use the same receiver, which has only one event key.",
        "Use a separate receiver port for resends, and set sharedWithLiveStream: false.",
    ),
    Reason.LINK_PROFILE_NOT_FOUND: Meaning(
        (DIODE, RESEND),
        "The ConfigMap of the Diode's spec.profileRef does not exist, or has no such entry, so the rate is unknown and "
        "nothing is sent.",
        "Create the ConfigMap from the file of gapless link receive --profile, or give the Diode a budget.",
    ),
    Reason.SCHEDULED: Meaning((ARCHIVE, GAP_SCAN), "The next run is scheduled.", ""),
    Reason.SCANNING: Meaning((GAP_SCAN,), "A scan is running.", ""),
    Reason.NEVER_SCANNED: Meaning((GAP_SCAN,), "No scan has finished yet.", ""),
    Reason.GAPS_FOUND: Meaning(
        (GAP_SCAN,), "Events are missing.", "Transfer status.resendManifest to the sending side and apply it there."
    ),
    Reason.NOTHING_MISSING: Meaning((GAP_SCAN,), "Nothing is missing.", ""),
    Reason.NOTHING_TO_DO: Meaning((GAP_SCAN,), "The topics contain no gap records.", "Check the topics."),
    Reason.UNKNOWN_EVENTS: Meaning(
        (GAP_SCAN,),
        "Kafka deleted records before an audit read them, or an open transaction holds them back, so it is unknown "
        "whether status.unknownEvents are missing. Or an open transaction holds back gap records of a scan, so it is "
        "unknown whether more events are missing.",
        "Audit more often than records expire; audit or scan again when the transaction has ended. To send these "
        "events again, set source.events.includeUnknown: true.",
    ),
    Reason.UNREADABLE_RECORDS: Meaning(
        (GAP_SCAN,),
        "Some gap records cannot be read; only the others were counted. Or an audit found no events.",
        "Check that the topic is correct, and that no other program writes to it.",
    ),
    Reason.TOPIC_MISSING: Meaning((GAP_SCAN,), "The topic does not exist.", "Correct spec.source."),
    Reason.ENGINE_UNAVAILABLE: Meaning(
        ON_SPARK,
        "engine.type (Mirror: spark.type) is SparkApplication, but its CRD is not installed.",
        "Install the Spark operator, or set it to Auto or Job.",
    ),
    Reason.NO_SPARK_OPERATOR: Meaning(
        ON_SPARK,
        "Event: engine.type is Auto and the Spark operator is not installed, so a Job without executors runs.",
        "None if one pod is enough; otherwise install the Spark operator. Set engine.type: Job to suppress the event.",
    ),
    Reason.START_DEADLINE_EXCEEDED: Meaning(
        ON_SPARK, "The driver did not start within engine.startDeadlineSeconds.", f"{CHECK_POD_EVENTS}."
    ),
    Reason.RUN_DEADLINE_EXCEEDED: Meaning(
        (ARCHIVE, GAP_SCAN),
        "The run did not finish within runDeadlineSeconds.",
        "Raise it, or the resources of the engine.",
    ),
    Reason.SCAN_FAILED: Meaning((GAP_SCAN,), "The scan failed.", "See status.lastAttempt.message."),
    Reason.RESULT_TOO_LARGE: Meaning(
        (GAP_SCAN,), "The bundle does not fit into a ConfigMap.", "Set output.storageRef to a StorageLocation."
    ),
    Reason.RESULT_UNREADABLE: Meaning(
        ON_SPARK,
        "The pod succeeded, but its result cannot be read.",
        "Use the Spark image and the operator of the same release.",
    ),
    Reason.ALL_CLOSED: Meaning((GAP_SCAN,), "All events of the previous bundle have arrived or can never arrive.", ""),
    Reason.NOTHING_WAS_MISSING: Meaning((GAP_SCAN,), "The previous bundle was empty.", ""),
    Reason.STILL_MISSING: Meaning(
        (GAP_SCAN,),
        "Some events of the previous bundle are still missing.",
        "If they were sent again, check the Resend, and send them with more copies or at a lower rate.",
    ),
    Reason.NOT_ALL_LOOKED_AT: Meaning(
        (GAP_SCAN,),
        "The scan could not check all events of the previous bundle. None of the checked events is missing.",
        "Set source.events.expect or source.events.manifest, or run an audit (source.events).",
    ),
    Reason.NOTHING_TO_COMPARE_WITH: Meaning((GAP_SCAN,), "There is no previous bundle.", "Wait for the next scan."),
    Reason.NOT_COMPARABLE: Meaning(
        (GAP_SCAN,),
        "The previous scan had a different source, or the pod of this scan cannot read its bundle.",
        "None; the next scan will be compared.",
    ),
    Reason.COMPARISON_FAILED: Meaning(
        (GAP_SCAN,), "The previous bundle could not be read, or was changed.", "See the message."
    ),
    Reason.COMPACTED: Meaning(
        (GAP_SCAN,),
        "The cleanup.policy of the gaps topic is compact, so the latest record of every window is kept.",
        "",
    ),
    Reason.NOT_COMPACTED: Meaning(
        (GAP_SCAN,),
        "Records in the gaps topic expire, so offsets without a record are unknown and do not count as closed.",
        "Set cleanup.policy to compact (docs/procedures/gaps-topic.md), and run an audit (source.events) to verify the "
        "offsets.",
    ),
    Reason.POLICY_UNKNOWN: Meaning(
        (GAP_SCAN,),
        "The cleanup.policy of the gaps topic could not be read; offsets without a record do not count as closed.",
        "Allow DescribeConfigs on the topic (docs/procedures/gaps-topic.md).",
    ),
    Reason.NOT_A_GAP_TOPIC: Meaning((GAP_SCAN,), "The last scan was an audit, which needs no gaps topic.", ""),
    Reason.DIODE_NOT_FOUND: Meaning(
        (RESEND,), "The Diode does not exist in this namespace.", "Create it, or correct spec.diodeRef."
    ),
    Reason.DIODE_INVALID: Meaning(
        (RESEND,),
        "The Diode's spec is invalid. Its senders are stopped; progress is kept.",
        "Correct the field of the Diode that the message names; the work resumes automatically.",
    ),
    Reason.DIODE_SUSPENDED: Meaning(
        (RESEND,),
        "spec.suspend of the Diode is true. Nothing is sent; progress is kept.",
        "Set spec.suspend of the Diode to false (docs/runbooks/GaplessDiodeSuspended.md).",
    ),
    Reason.DIODE_NOT_READY: Meaning((RESEND,), "The Diode is not ready.", "Check the conditions of the Diode."),
    Reason.BUNDLE_NOT_FOUND: Meaning(
        (RESEND,), "The bundle does not exist at the location in the spec.", "Copy it there, or correct spec.bundle."
    ),
    Reason.FILTER_RULES_NOT_FOUND: Meaning(
        (RESEND,), "The ConfigMap of spec.inputFilter.rulesFrom does not exist.", "Create the ConfigMap."
    ),
    Reason.BAD_BUNDLE: Meaning(
        (RESEND,),
        "The bundle is truncated or corrupted, does not match spec.bundle.sha256, or is not signed with one of the "
        "Diode's trustedKeys.",
        "Transfer the bundle again, or sign it on the receiving side.",
    ),
    Reason.QUEUED: Meaning(
        (RESEND,),
        "Other Resends of the Diode run first, ordered by priority, then by age.",
        "Raise spec.priority if it is urgent.",
    ),
    Reason.KEY_LANE_BUSY: Meaning((RESEND,), "Another encrypted resend uses the receiver; they run one at a time.", ""),
    Reason.PLANNING: Meaning((RESEND, RESTORE), "The plan is being computed.", ""),
    Reason.PLANNED: Meaning(
        (RESEND, RESTORE),
        "status.plan is complete. Nothing was sent or written.",
        "Set spec.mode: Send (Resend), or Once or Follow (Restore).",
    ),
    Reason.STARTING: Meaning((MIRROR, RESEND, RESTORE), "The pods are starting.", f"{CHECK_POD_EVENTS} if this lasts."),
    Reason.SENDING: Meaning((RESEND,), "Events are being sent.", ""),
    Reason.RETRYING: Meaning(
        (ARCHIVE, MIRROR, RESEND, RESTORE), "An attempt failed and will be retried.", "See the message."
    ),
    Reason.SENT: Meaning((RESEND,), "All events were sent, filtered or filled.", ""),
    Reason.NOTHING_TO_SEND: Meaning((RESEND,), "The selection contains no events in the Diode's partitionWindow.", ""),
    Reason.ALREADY_SENT: Meaning(
        (RESEND,),
        "According to the Diode's ledger, the same work was already sent. Nothing was sent again.",
        "To send it again, set spec.force to a new value.",
    ),
    Reason.LEDGER_UNREADABLE: Meaning(
        (RESEND,),
        "A ConfigMap of the Diode's ledger cannot be read, so it is unknown whether the same work was already sent.",
        "Restore the ConfigMap, or delete it and set spec.notBefore of the Diode.",
    ),
    Reason.TOO_OLD: Meaning(
        (RESEND,),
        "The work is older than the Diode's spec.notBefore and may have been sent already.",
        "To send it, set spec.force to a new value.",
    ),
    Reason.INCOMPLETE: Meaning(
        (RESEND, RESTORE),
        "The work is finished, except for the ranges in status.unavailable (Resend) or status.lost (Restore).",
        "Resend: create a new Resend that fills them (unavailable: Fill) or reads them from an archive (fallback). "
        "Restore: check the segments (gapless segments verify).",
    ),
    Reason.LOG_UNREADABLE: Meaning(
        (RESEND,),
        "The senders have finished, but the log with their report cannot be read yet. Other Resends can run.",
        "Check the kubelet of the node that the message names.",
    ),
    Reason.REPORT_UNREADABLE: Meaning(
        (RESEND,),
        "The senders succeeded, but their report cannot be read, so the ledger has no entry for it.",
        "Use the sender image and the operator of the same release, then change the spec. The work resumes from the "
        "checkpoints.",
    ),
    Reason.LINK_FAILED: Meaning((RESEND,), "Sending datagrams failed.", "Check the Diode and its node."),
    Reason.DEADLINE_EXCEEDED: Meaning(
        (RESEND,),
        "The Resend did not finish within activeDeadlineSeconds; progress is kept.",
        "Raise activeDeadlineSeconds, or set retry.",
    ),
    Reason.BACKOFF_LIMIT_EXCEEDED: Meaning(
        (RESEND, RESTORE),
        "The number of failed attempts exceeds backoffLimit.",
        "Remove the cause, then set spec.retry to a new value.",
    ),
    Reason.ARCHIVE_NOT_FOUND: Meaning(
        (RESEND, RESTORE),
        "The Archive does not exist in this namespace, or it is invalid.",
        "Create it, or set storageRef and region instead.",
    ),
    **COPY_MEANINGS,
}
"""The description of each reason."""
