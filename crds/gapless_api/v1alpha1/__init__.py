"""Owns the names under which the rest of Gapless reaches the API v1alpha1; must not hold any rule of its own."""

from gapless_api.v1alpha1.conditions import (
    Condition,
    ConditionType,
    condition,
    is_true,
    set_condition,
)
from gapless_api.v1alpha1.diode import Diode, DiodeSpec, DiodeStatus
from gapless_api.v1alpha1.gapscan import GapScan, GapScanSpec
from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.kafka_connection import KafkaConnection, KafkaConnectionSpec
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resend import Resend, ResendSpec, ResendStatus
from gapless_api.v1alpha1.resource import API_VERSION, GROUP, VERSION, Metadata, Resource, metadata_of
from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_api.v1alpha1.storage_location import StorageLocation, StorageLocationSpec

KINDS: tuple[type[Resource], ...] = (Diode, GapScan, KafkaConnection, Resend, StorageLocation)

__all__ = [
    "API_VERSION",
    "GROUP",
    "KINDS",
    "VERSION",
    "Condition",
    "ConditionType",
    "Diode",
    "DiodeSpec",
    "DiodeStatus",
    "GapScan",
    "GapScanSpec",
    "GapScanStatus",
    "KafkaConnection",
    "KafkaConnectionSpec",
    "Metadata",
    "Reason",
    "Resend",
    "ResendSpec",
    "ResendStatus",
    "Resource",
    "StorageLocation",
    "StorageLocationSpec",
    "condition",
    "is_true",
    "metadata_of",
    "resend_identity",
    "set_condition",
]
