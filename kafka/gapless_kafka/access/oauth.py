"""How a client gets the token of an OAUTHBEARER login: from a token endpoint, a file, or the signer of Amazon MSK.

librdkafka requests and renews tokens of an endpoint itself. It asks `FileToken` for the token of a file when 80% of
the returned lifetime has passed, so a short lifetime makes it read the file again soon after it has changed; and
`MskToken` for one that is signed with the AWS credentials of this process.
"""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.extras import not_installed
from gapless_api.base.system_certificates import trusted_certificates

_URL = re.compile(r"https?://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+)(:(?P<port>[0-9]{1,5}))?(/[^\s]*)?")
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")
"""The characters of a bearer token (RFC 6750)."""
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")
_READ_AGAIN_SECONDS = 20.0
"""Maximum lifetime that librdkafka is told, so that it looks for a new token often enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """Where the token of a login comes from. It holds paths and names, never a secret."""

    token_endpoint: str | None = None
    """URL from which tokens are requested with the grant for client credentials."""
    client_id: str | None = None
    client_secret_file: Path | None = None
    scope: str | None = None
    ca_file: Path | None = None
    """CA certificates (PEM) that verify the token endpoint; ``None`` for the system's."""
    token_file: Path | None = None
    """A file with the token itself, which another program replaces before it expires."""
    msk_region: str | None = None
    """The region of a cluster of Amazon MSK, for which tokens are signed."""
    msk_profile: str | None = None
    """The profile of the AWS credentials; ``None`` for AWS's usual order of places."""

    @property
    def is_given(self) -> bool:
        """Whether any setting is given."""
        return any((*self._of_endpoint().values(), self.token_file is not None, self.msk_region, self.msk_profile))

    def _of_endpoint(self) -> dict[str, object]:
        """The settings of a token endpoint, by name."""
        return {
            "oauthTokenEndpoint": self.token_endpoint,
            "oauthClientId": self.client_id,
            "oauthClientSecretFile": self.client_secret_file,
            "oauthScope": self.scope,
            "oauthCaFile": self.ca_file,
        }

    def callback(self) -> FileToken | MskToken | None:
        """Return the callback that gives a client its token; ``None`` for those of an endpoint."""
        if self.msk_region is not None:
            return MskToken(self.msk_region, self.msk_profile)
        return FileToken(self.token_file) if self.token_file is not None else None

    @property
    def endpoint_address(self) -> tuple[str, int] | None:
        """Host and port of the token endpoint; ``None`` without one."""
        match = _URL.fullmatch(self.token_endpoint or "")
        if match is None:
            return None
        return match["host"], int(match["port"] or (443 if match[0].startswith("https") else 80))

    def check(self) -> None:
        """Check that the settings fit together and every file can be used. Raises ConfigurationError."""
        if self.msk_profile is not None and self.msk_region is None:
            raise ConfigurationError(
                "oauthMskProfile is given without oauthMskRegion; give the region of the Amazon MSK cluster, or remove "
                "the profile."
            )
        alone = {"oauthTokenFile": self.token_file, "oauthMskRegion": self.msk_region}
        given = [name for name, value in alone.items() if value is not None]
        if given:
            others = {**alone, **self._of_endpoint()}
            both = next((name for name, value in others.items() if value and name != given[0]), None)
            if both is not None:
                raise ConfigurationError(
                    f"{given[0]} and {both} are given; give the file of a token, the region of Amazon MSK, or the "
                    f"token endpoint with its client ID and secret."
                )
            callback = self.callback()
            assert callback is not None  # noqa: S101 -- for the type checker
            callback.read()
            return
        needed = {"oauthTokenEndpoint": self.token_endpoint, "oauthClientId": self.client_id}
        missing = [
            name for name, value in {**needed, "oauthClientSecretFile": self.client_secret_file}.items() if not value
        ]
        if missing:
            raise ConfigurationError(
                f"saslMechanism OAUTHBEARER needs oauthTokenFile, or oauthTokenEndpoint, oauthClientId and "
                f"oauthClientSecretFile; give {', '.join(missing)}, or oauthTokenFile alone, or oauthMskRegion."
            )
        address = self.endpoint_address
        if address is None or not 1 <= address[1] <= 65535:
            raise ConfigurationError(
                "oauthTokenEndpoint is not a URL such as https://login.example.org/realms/kafka/token; correct it, and "
                "give the client ID and the secret with oauthClientId and oauthClientSecretFile."
            )
        if self.ca_file is not None:
            from gapless_api.keys import pem_files  # noqa: PLC0415 -- cryptography is slow to import

            pem_files.read_certificates(self.ca_file, setting="oauthCaFile")
        self.client_secret()

    def client_secret(self) -> str:
        """The client secret. The result is secret. Raises ConfigurationError."""
        if self.client_secret_file is None:  # pragma: no cover -- `check` checks first
            raise ConfigurationError("There is no oauthClientSecretFile.")
        return _secret_text(self.client_secret_file, "oauthClientSecretFile")

    def librdkafka_options(self) -> dict[str, str]:
        """Properties for a librdkafka client; none for tokens that only a callback can give.

        The result is secret. Raises ConfigurationError.
        """
        if self.callback() is not None:
            return {}
        options = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.token_endpoint or "",
            "sasl.oauthbearer.client.id": self.client_id or "",
            "sasl.oauthbearer.client.secret": self.client_secret(),
            "https.ca.location": str(trusted_certificates(self.ca_file) or "probe"),
        }
        return options | ({"sasl.oauthbearer.scope": self.scope} if self.scope else {})


@dataclass(frozen=True, slots=True)
class FileToken:
    """The callback ``oauth_cb`` that reads the token of a login from a file each time."""

    path: Path

    def __call__(self, _config: str) -> tuple[str, float]:
        """Return the token, and the time until which it may be used, in seconds since 1970.

        Raises:
            ConfigurationError: like `read`. librdkafka reports a failed login, and asks again later.
        """
        token = self.read()
        soon = time.time() + _READ_AGAIN_SECONDS
        expiry = _expiry(token)
        return token, soon if expiry is None else min(soon, expiry)

    def read(self) -> str:
        """Return the token. The result is secret.

        Raises:
            ConfigurationError: the file cannot be read, holds no token, or its token has expired.
        """
        token = _secret_text(self.path, "oauthTokenFile")
        if not _TOKEN.fullmatch(token):
            raise ConfigurationError(
                f"The file {self.path} of oauthTokenFile holds no bearer token; write the token alone into it, in one "
                f"line and without quotes."
            )
        expiry = _expiry(token)
        if expiry is not None and expiry <= time.time():
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expiry))
            raise ConfigurationError(
                f"The token in the file {self.path} of oauthTokenFile expired at {when}; write a new token into it."
            )
        return token


@dataclass(frozen=True, slots=True)
class MskToken:
    """The callback ``oauth_cb`` that signs a token for a cluster of Amazon MSK, with IAM, each time."""

    region: str
    profile: str | None = None

    def __call__(self, _config: str) -> tuple[str, float]:
        """Return the token, and the time until which it may be used, in seconds since 1970.

        Raises:
            ConfigurationError: like `read`. librdkafka reports a failed login, and asks again later.
        """
        return self._signed()

    def read(self) -> str:
        """Return a token. The result is secret.

        Raises:
            ConfigurationError: the signer is not installed, the region is none, or there are no AWS credentials.
        """
        return self._signed()[0]

    def _signed(self) -> tuple[str, float]:
        if not _REGION.fullmatch(self.region):
            raise ConfigurationError(f"oauthMskRegion {self.region!r} is not a region such as eu-north-1; correct it.")
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer  # noqa: N813, PLC0415 -- optional, and slow
        except ModuleNotFoundError:
            raise not_installed("aws_msk_iam_sasl_signer") from None
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 -- comes with the signer

        try:
            if self.profile is not None:
                token, expires_ms = signer.generate_auth_token_from_profile(self.region, self.profile)
            else:
                token, expires_ms = signer.generate_auth_token(self.region)
        except (BotoCoreError, ClientError, ValueError, AttributeError) as error:
            # Without any credentials, the signer uses None as if it were some.
            none = isinstance(error, AttributeError)
            reason = "there are no AWS credentials" if none else " ".join(str(error).split())
            raise ConfigurationError(
                f"No token can be signed for Amazon MSK in {self.region}: {reason}; give this process AWS credentials, "
                f"for example with AWS_PROFILE or oauthMskProfile."
            ) from None
        return token, expires_ms / 1000


def _secret_text(path: Path, setting: str) -> str:
    from gapless_api.keys import pem_files  # noqa: PLC0415 -- cryptography is slow to import

    try:
        return pem_files.read_password(path, setting=setting).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"The file {path} of {setting} is not UTF-8 text; save it as UTF-8.") from None


def _expiry(token: str) -> float | None:
    """Return when a JSON web token expires, in seconds since 1970; ``None`` for a token that does not say so."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        expiry = claims.get("exp")
    except (ValueError, AttributeError):
        return None
    is_moment = isinstance(expiry, int | float) and not isinstance(expiry, bool) and 0 <= expiry < 1 << 40
    return float(expiry) if is_moment else None
