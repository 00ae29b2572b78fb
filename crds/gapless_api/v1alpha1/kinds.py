"""The list of all kinds of the API; must not contain rules."""

from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.diode import Diode
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.resource import Resource
from gapless_api.v1alpha1.restore import Restore
from gapless_api.v1alpha1.storage_location import StorageLocation

KINDS: tuple[type[Resource], ...] = (Archive, Diode, GapScan, KafkaConnection, Mirror, Resend, Restore, StorageLocation)
