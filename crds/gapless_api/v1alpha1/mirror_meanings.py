"""Owns what the reasons of mirrors, and of the checks of KafkaConnections, mean and what to do about them."""

from __future__ import annotations

from gapless_api.v1alpha1.reason_meaning import CONNECTION, MIRROR, PODS, Meaning
from gapless_api.v1alpha1.reasons import Reason

MIRROR_MEANINGS: dict[Reason, Meaning] = {
    Reason.MIRRORING: Meaning((MIRROR,), "Topics are being copied.", ""),
    Reason.NEVER_MIRRORED: Meaning((MIRROR,), "Nothing has been copied yet.", f"{PODS} if this lasts."),
    Reason.MIRROR_FAILED: Meaning(
        (MIRROR,), "The mirror ended with an error; it is started again.", "See status.lastAttempt.message."
    ),
    Reason.COORDINATOR_UNAVAILABLE: Meaning(
        (MIRROR,),
        "The coordinator of the mirror's transactions or of its group in the target does not answer.",
        "Check the leaders of __transaction_state and __consumer_offsets in the target: annotate the KafkaConnection "
        "with gapless.dev/doctor.",
    ),
    Reason.LEADER_MISSING: Meaning(
        (MIRROR,),
        "A partition of the source, or its copy in the target, has no leader.",
        "Bring its brokers back; copying resumes automatically.",
    ),
    Reason.AUTHORIZATION_FAILED: Meaning(
        (MIRROR,),
        "A cluster denies an operation, or refuses the login.",
        "Allow what the message names (docs/procedures/mirror-on-kubernetes.md); copying resumes automatically.",
    ),
    Reason.SOURCE_IDLE: Meaning((MIRROR,), "Everything is copied, and the source has nothing new.", ""),
    Reason.TARGET_REFUSES: Meaning(
        (MIRROR,),
        "The target does not take records: they are too large, invalid or too old, or it has no room for them.",
        "Raise the limit that the message names (max.message.bytes for example), or make room.",
    ),
    Reason.RETENTION_OVERTOOK: Meaning(
        (MIRROR,),
        "The source has deleted records before they were copied; the message names the range.",
        "Decide by spec.onDataLoss (docs/runbooks/GaplessMirrorDataLoss.md).",
    ),
    Reason.TRANSACTION_OPEN: Meaning(
        (MIRROR,),
        "A transaction of another program is open in the source, or Kafka has left one of ours open in the target.",
        "Find that program, or abort its transaction (kafka-transactions.sh); copying resumes automatically.",
    ),
    Reason.WORKER_STUCK: Meaning(
        (MIRROR,),
        "There are records to copy, both clusters answer, and nothing is copied; or no worker owns a lane.",
        f"{PODS}, and its log; a deleted pod is replaced without loss.",
    ),
    Reason.CHECKING: Meaning((CONNECTION,), "A pod with gapless doctor checks the cluster.", f"{PODS} if this lasts."),
    Reason.NOTHING_FOUND: Meaning((CONNECTION,), "The last check found nothing that needs a person.", ""),
    Reason.PROBLEMS_FOUND: Meaning(
        (CONNECTION,),
        "The last check found problems; status.doctor.findings lists them.",
        "Do what each finding says, then check again with another value of the annotation gapless.dev/doctor.",
    ),
    Reason.DOCTOR_FAILED: Meaning(
        (CONNECTION,), "The check ended with an error.", "See the message, then set the annotation to another value."
    ),
}
