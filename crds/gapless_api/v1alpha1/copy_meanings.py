"""The meanings of the reasons of Archives, Restores, Mirrors and KafkaConnections, and the required actions."""

from __future__ import annotations

from gapless_api.v1alpha1.reasons import ARCHIVE, CHECK_POD_EVENTS, CONNECTION, MIRROR, RESTORE, Meaning, Reason

COPY_MEANINGS: dict[Reason, Meaning] = {
    Reason.ARCHIVING: Meaning((ARCHIVE,), "Topics are being archived.", ""),
    Reason.ARCHIVED: Meaning((ARCHIVE,), "The last scheduled run archived all records.", ""),
    Reason.NEVER_ARCHIVED: Meaning((ARCHIVE,), "Nothing has been archived yet.", f"{CHECK_POD_EVENTS} if this lasts."),
    Reason.RETENTION_OVERTAKING: Meaning(
        (ARCHIVE,),
        "Kafka will soon delete records that are not archived yet.",
        "Raise retention.ms, or the resources of the engine (docs/runbooks/GaplessArchiveRetentionOvertaking.md).",
    ),
    Reason.RECORDS_LOST: Meaning(
        (ARCHIVE,),
        "Kafka deleted records before they were archived; status.lostRecords counts them.",
        "They cannot be recovered. Raise retention.ms of the topics, or the resources of the engine.",
    ),
    Reason.LOG_TRUNCATED: Meaning(
        (ARCHIVE,),
        "Kafka no longer has records that were archived, under the same topic ID, as after an unclean leader election "
        "or on a replaced disk. Nothing more of these partitions is archived, and the archive keeps the records.",
        "Archive what Kafka has now to another region (spec.region).",
    ),
    Reason.TOPIC_RECREATED: Meaning(
        (ARCHIVE, MIRROR),
        "A topic was deleted and recreated. An Archive archives it as a new generation; a Mirror stops copying it, "
        "because its positions are no longer valid.",
        "Archive: none if this was intended; a Restore selects a generation with spec.generation. Mirror: set "
        "spec.onDataLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.NO_PROGRESS: Meaning(
        (ARCHIVE, RESTORE),
        "The pod is running, but the lag does not decrease.",
        f"{CHECK_POD_EVENTS}, and its log (docs/runbooks/GaplessArchiveNoProgress.md).",
    ),
    Reason.ARCHIVE_FAILED: Meaning(
        (ARCHIVE,), "Archiving failed and will be retried.", "See status.lastAttempt.message."
    ),
    Reason.COMPACTING: Meaning((ARCHIVE,), "Segments are being compacted.", ""),
    Reason.COMPACTION_DONE: Meaning((ARCHIVE,), "Event and outcome: a compaction has finished.", ""),
    Reason.COMPACTION_FAILED: Meaning(
        (ARCHIVE,), "A compaction failed; nothing is lost.", "See status.compaction.lastAttempt.message."
    ),
    Reason.RESTORING: Meaning((RESTORE,), "Records are being written.", ""),
    Reason.FOLLOWING: Meaning(
        (RESTORE,), "Everything is restored. Records that are archived later will also be restored.", ""
    ),
    Reason.WAITING_FOR_ARCHIVE: Meaning(
        (RESTORE,),
        "The archive has nothing of a topic yet that a Restore with the mode Follow names. What it has is restored.",
        "None if the topic will be archived (docs/runbooks/GaplessRestoreWaiting.md).",
    ),
    Reason.RESTORED: Meaning((RESTORE,), "Everything was restored.", ""),
    Reason.NOTHING_TO_RESTORE: Meaning((RESTORE,), "The archive contains no matching records.", "Check spec.topics."),
    Reason.RESTORE_FAILED: Meaning(
        (RESTORE,), "Restoring failed and will be retried.", "See status.lastAttempt.message."
    ),
    Reason.MIRRORING: Meaning((MIRROR,), "Topics are being copied.", ""),
    Reason.NEVER_MIRRORED: Meaning((MIRROR,), "Nothing has been copied yet.", f"{CHECK_POD_EVENTS} if this lasts."),
    Reason.MIRROR_FAILED: Meaning(
        (MIRROR,), "The mirror failed and will be restarted.", "See status.lastAttempt.message."
    ),
    Reason.COORDINATOR_UNAVAILABLE: Meaning(
        (MIRROR,),
        "The transaction coordinator or the group coordinator of the mirror in the target does not respond.",
        "Check the leaders of __transaction_state and __consumer_offsets in the target: annotate the KafkaConnection "
        "with gapless.dev/doctor.",
    ),
    Reason.LEADER_MISSING: Meaning(
        (MIRROR,),
        "A partition of the source, or its copy in the target, has no leader, or a cluster does not answer.",
        "Recover its brokers; copying resumes automatically.",
    ),
    Reason.AUTHORIZATION_FAILED: Meaning(
        (MIRROR,),
        "A cluster denies an operation, or authentication failed.",
        "Grant the permission that the message names (docs/procedures/mirror-on-kubernetes.md); copying resumes "
        "automatically.",
    ),
    Reason.SOURCE_IDLE: Meaning((MIRROR,), "Everything is copied; the source has no new records.", ""),
    Reason.TARGET_REFUSES: Meaning(
        (MIRROR,),
        "The target rejects records: they are too large, invalid or too old, its disk is full, or too few replicas are "
        "in sync (min.insync.replicas).",
        "Raise the limit that the message names, such as max.message.bytes, free disk space, or start the brokers of "
        "the missing replicas.",
    ),
    Reason.RETENTION_OVERTOOK: Meaning(
        (MIRROR,),
        "The source has deleted records before they were copied; the message names the range.",
        "Set spec.onDataLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.SOURCE_TRUNCATED: Meaning(
        (MIRROR,),
        "The source log has the same topic ID and no longer has records that were copied: an unclean leader election, "
        "or a replaced disk.",
        "Compare both topics, then set spec.onDataLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.SOURCE_DAMAGED: Meaning(
        (MIRROR,),
        "The source log has a batch that cannot be read as it was written; the message names its offset.",
        "Replace the damaged replica (docs/runbooks/GaplessMirrorStalled.md); copying resumes automatically.",
    ),
    Reason.TARGET_DELETED: Meaning(
        (MIRROR,),
        "A target topic with copies was deleted; it is not created again without a decision.",
        "Set spec.onTargetLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.TARGET_RECREATED: Meaning(
        (MIRROR,),
        "A target topic with copies was deleted and recreated: it has another topic ID.",
        "Set spec.onTargetLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.TARGET_TRUNCATED: Meaning(
        (MIRROR,),
        "A target log ends before the last copy that was written to it.",
        "Set spec.onTargetLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.TARGET_DIVERGED: Meaning(
        (MIRROR,),
        "A target log was truncated before the last copy, and has other records there now.",
        "Set spec.onTargetLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.POSITION_MISSING: Meaning(
        (MIRROR,),
        "The mirror has no position of a partition whose target has records, as after its control topic was deleted.",
        "Set spec.startAtTarget, spec.startAtGroup or spec.copyAgain for one run (docs/procedures/mirror.md).",
    ),
    Reason.POSITION_OUTDATED: Meaning(
        (MIRROR,),
        "The target has copies behind the position of a partition, as after the control topic has lost records.",
        "Set spec.startAtTarget or spec.copyAgain for one run (docs/procedures/mirror.md).",
    ),
    Reason.POSITION_UNREADABLE: Meaning(
        (MIRROR,),
        "A record of the control topic cannot be read, so the partition that it is about is not copied.",
        "Run one release of Gapless; if the record is damaged, set spec.startAtTarget or spec.copyAgain for one run "
        "(docs/procedures/mirror.md).",
    ),
    Reason.COPY_FAILED: Meaning(
        (MIRROR,),
        "An unexpected error in Gapless stops a partition, at the offset that the message names, or a lane; the others "
        "are copied.",
        "Report a bug with the log of the pod, which has no content of records. Copying is tried again automatically.",
    ),
    Reason.TRANSACTION_OPEN: Meaning(
        (MIRROR,),
        "A transaction of another program is open in the source, or a transaction of the mirror is open in the target.",
        "Check that program, or abort the transaction (kafka-transactions.sh); copying resumes automatically.",
    ),
    Reason.WORKER_STUCK: Meaning(
        (MIRROR,),
        "There are records to copy and both clusters respond, but nothing is copied; or no worker owns a lane.",
        f"{CHECK_POD_EVENTS}, and its log. The pod can be deleted; it is replaced without data loss.",
    ),
    Reason.CHECKING: Meaning((CONNECTION,), "A pod is running gapless doctor.", f"{CHECK_POD_EVENTS} if this lasts."),
    Reason.NOT_CHECKED: Meaning(
        (CONNECTION,),
        "There was no check, the spec has changed since the last one, or it was stopped.",
        "Set the annotation gapless.dev/doctor to a new value to check it.",
    ),
    Reason.NOTHING_FOUND: Meaning((CONNECTION,), "The last check found no errors.", ""),
    Reason.PROBLEMS_FOUND: Meaning(
        (CONNECTION,),
        "The last check found problems; status.doctor.findings lists them.",
        "Follow the action of each finding, then start another check with a new value of the annotation "
        "gapless.dev/doctor.",
    ),
    Reason.DOCTOR_FAILED: Meaning(
        (CONNECTION,), "The check failed.", "See the message, then set the annotation to a new value."
    ),
}
