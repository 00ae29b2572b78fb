"""How the properties of a Kafka client are translated to settings of a mirror: mapped, ignored or refused. Pure.

No returned or raised text contains a secret: properties with secrets are refused by name, unless a setting names a file
that is used instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.redaction import shown_name, shown_value
from gapless_api.base.refusals import IGNORED, Refusals, UnknownName, refuse_unknown
from gapless_api.base.settings import IGNORE_UNKNOWN, kebab
from gapless_mirror.settings.client_properties import Mapped, NoMeaning, Rule, rule_of
from gapless_mirror.settings.jaas import LoginModule, read_jaas
from gapless_mirror.settings.login_properties import SECRETS, SECURITY

if TYPE_CHECKING:
    from gapless_mirror.settings.java_properties import Property

_STORES = {"ssl.truststore.location": ("CaFile",), "ssl.keystore.location": ("CertFile", "KeyFile")}
_PEM = (".pem", ".crt", ".cer")
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_OAUTH_MODULE = "OAuthBearerLoginModule"
_KERBEROS_MODULE = "Krb5LoginModule"
_MSK_MODULE = "IAMLoginModule"
_MODULE_OPTIONS = {
    _OAUTH_MODULE: {"clientId": "OauthClientId", "scope": "OauthScope"},
    _KERBEROS_MODULE: {
        "keyTab": "KerberosKeytabFile",
        "principal": "KerberosPrincipal",
        "serviceName": "KerberosServiceName",
    },
    _MSK_MODULE: {"awsProfileName": "OauthMskProfile"},
}
"""By login module: its options that are settings."""
_KERBEROS_IGNORED = frozenset(
    {"useKeyTab", "useTicketCache", "renewTGT", "storeKey", "doNotPrompt", "refreshKrb5Config", "isInitiator", "debug"}
)
"""Options of Java's module for what the Kerberos library does in any case: it asks for nothing, and renews tickets."""
_TOKEN_REQUEST = ("sasl.oauthbearer.", "sasl.jaas.config", "sasl.login.callback.handler.class", "https.ca.location")
_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}


@dataclass(slots=True)
class Translation:
    """The settings that were translated from files of another program."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By setting: its text, and its origin for messages."""
    ignored: dict[str, str] = field(default_factory=dict)
    """Properties without meaning for a mirror, with the reason."""
    unknown: list[Property] = field(default_factory=list)
    """Properties that no client and no mirror of Kafka has."""
    refusals: Refusals = field(default_factory=Refusals)
    """Why properties cannot be used; `settle` raises them together with the unknown ones."""
    to_write: dict[str, str] = field(default_factory=dict)
    """By path: which content the files in `ClientRules.files_folder` must get."""

    def add(self, setting: str, text: str, origin: Property) -> None:
        """Add a setting."""
        self.texts[setting] = (text, f"from {origin.key} {origin.origin}")


@dataclass(frozen=True, slots=True)
class ClientRules:
    """The rules for the properties of one client."""

    rules: Mapping[str, Rule]
    side: str
    """source or target."""
    given: Collection[str] = ()
    """Settings that are given elsewhere, which take precedence."""
    files_folder: str = ""
    """Where the user will write secrets and key stores that are not in readable files; empty to refuse these."""

    def file_to_write(self, setting: str) -> str:
        """Return the path of a file that the user will write."""
        return f"{self.files_folder}/{kebab(setting).removesuffix('-file')}"


def translate(properties: Iterable[Property], client: ClientRules) -> Translation:
    """Translate the properties of a client; `settle` raises what is unknown, cannot work here, or holds a secret."""
    translation = Translation()
    security = {}
    for each in properties:
        if each.key in SECRETS or rule_of(each.key, SECURITY) is not None:
            security[each.key] = each
        else:
            rule = rule_of(each.key, client.rules)
            if rule is None:
                translation.unknown.append(each)
            else:
                with translation.refusals.collect():
                    apply_rule(translation, each, rule, client.side, client.given)
    with translation.refusals.collect():
        _translate_security(translation, security, client)
    return translation


def apply_rule(translation: Translation, each: Property, rule: Rule, side: str, given: Collection[str] = ()) -> None:
    """Apply a rule to a property; its value is not read if it is not needed. Raises ConfigurationError."""
    if isinstance(rule, Mapped):
        setting = rule.setting.format(side=side)
        if setting in given:
            translation.ignored[each.key] = f"{setting} is given"
            return
        if not each.value:
            return
        try:
            text = rule.convert(each.value)
        except ValueError as error:
            raise ConfigurationError(f"The property {each.key} ({each.origin}) must be {error}.") from None
        if text:
            translation.add(setting, text, each)
        else:
            translation.ignored[each.key] = rule.without
    elif isinstance(rule, NoMeaning):
        translation.ignored[each.key] = rule.why
    elif rule.refuses(each.value):
        shown = each.value if rule.values else shown_value(each.key, each.raw_value)
        raise ConfigurationError(f"The property {each.key}={shown} ({each.origin}) {rule.reason}.")
    else:
        translation.ignored[each.key] = rule.otherwise


def _translate_security(translation: Translation, security: Mapping[str, Property], client: ClientRules) -> None:
    protocol = security.get("security.protocol")
    name = protocol.value.upper() if protocol is not None else "PLAINTEXT"
    if name not in _PROTOCOLS:
        origin = protocol.origin if protocol is not None else ""
        raise ConfigurationError(f"The property security.protocol ({origin}) must be one of {', '.join(_PROTOCOLS)}.")
    tls, sasl = _PROTOCOLS[name]
    if protocol is not None:
        translation.add(f"{client.side}Tls", str(tls).lower(), protocol)
    mechanism = _mechanism(translation, security, client) if sasl else ""
    for key, each in security.items():
        if (key.startswith("ssl.") and not tls) or (key.startswith("sasl.") and not sasl):
            translation.ignored[key] = f"security.protocol is {name}"
        elif key.startswith(_TOKEN_REQUEST) and f"{client.side}OauthTokenFile" in client.given:
            translation.ignored[key] = f"{client.side}OauthTokenFile is given"
        elif key.startswith("sasl.kerberos.") and mechanism != "GSSAPI":
            translation.ignored[key] = f"the login is {mechanism}"
        elif key != "security.protocol":
            with translation.refusals.collect():
                _translate_login(translation, each, client, security.get(key.replace("location", "type")))


def _mechanism(translation: Translation, security: Mapping[str, Property], client: ClientRules) -> str:
    """Return the SASL mechanism of the properties; without one, it is Kafka's default, which is added."""
    setting = f"{client.side}SaslMechanism"
    if setting in client.given:
        return f"that of {setting}"
    given = security.get("sasl.mechanism") or security.get("sasl.mechanisms")
    if given is not None:
        return given.value
    translation.add(setting, "GSSAPI", security["security.protocol"])
    return "GSSAPI"


def _translate_login(translation: Translation, each: Property, client: ClientRules, kind: Property | None) -> None:
    if each.key in _STORES:
        _add_store(translation, each, client, kind)
    elif each.key in SECRETS:
        _add_login(translation, each, client)
    else:
        rule = rule_of(each.key, SECURITY)
        assert rule is not None  # noqa: S101 -- for the type checker: `translate` has looked
        apply_rule(translation, each, rule, client.side, client.given)


def _add_store(translation: Translation, each: Property, client: ClientRules, kind: Property | None) -> None:
    names = [f"{client.side}{setting}" for setting in _STORES[each.key]]
    if all(name in client.given for name in names):
        translation.ignored[each.key] = f"{' and '.join(names)} is given"
        return
    is_pem = kind.value.upper() == "PEM" if kind is not None else each.value.lower().endswith(_PEM)
    if not is_pem and client.files_folder:
        for name in names:
            path = client.file_to_write(name)
            translation.add(name, path, each)
            translation.to_write[path] = f"the key store of {each.key} ({each.origin}), exported as PEM"
        return
    if not is_pem:
        options = " and ".join(f"--{kebab(name)}=FILE" for name in names)
        raise ConfigurationError(
            f"The property {each.key} ({each.origin}) names a key store of Java, which this program does not read; "
            f"export it as PEM and give {options}."
        )
    for name in names:
        translation.add(name, each.value, each)


def _add_login(translation: Translation, each: Property, client: ClientRules) -> None:
    """Add the user name of a login, and the file of its secret if the secret is a reference to one."""
    if each.key == "sasl.jaas.config" and (add := _WITHOUT_PASSWORD.get(_module_name(each))) is not None:
        add(translation, each, client)
        return
    setting = SECRETS[each.key].format(side=client.side)
    file = each.value_file
    if each.key == "sasl.jaas.config" and not {setting, f"{client.side}SaslUsername"} <= {*client.given}:
        file = _add_jaas(translation, each, client)
    _add_secret(translation, each, setting, file, client)


def _add_secret(translation: Translation, each: Property, setting: str, file: Path | None, client: ClientRules) -> None:
    """Add the file of a secret. Raises ConfigurationError without one."""
    if setting in client.given:
        translation.ignored[each.key] = f"{setting} names the file that is used"
    elif file is not None:
        translation.add(setting, str(file), each)
    elif client.files_folder:
        path = client.file_to_write(setting)
        translation.add(setting, path, each)
        translation.to_write[path] = f"the secret of {each.key} ({each.origin})"
    else:
        raise ConfigurationError(
            f"The property {each.key} ({each.origin}) holds a secret, which is only read from a separate file; write "
            f"it to a file that only this user can read, and give --{kebab(setting)}=FILE. The property may stay: it "
            f"is ignored then."
        )


def _add_jaas(translation: Translation, each: Property, client: ClientRules) -> Path | None:
    """Add the user name of a JAAS configuration; return the file of its password if that is a reference to one."""
    try:
        module = _read_jaas(each)
    except ValueError as error:
        raise ConfigurationError(
            f"The property {each.key} ({each.origin}) is not a JAAS configuration as Kafka reads it: {error}; correct "
            f"it, or give {client.side}SaslUsername and {client.side}SaslPasswordFile."
        ) from None
    if module.name not in _LOGIN_MODULES:
        raise ConfigurationError(
            f"The property {each.key} ({each.origin}) names a login module that this program does not have; log in "
            f"with {', '.join((*_LOGIN_MODULES, *_WITHOUT_PASSWORD))}, or with a certificate."
        )
    user, setting = each.resolve(module.options.get("username", "")), f"{client.side}SaslUsername"
    if user and setting not in client.given:
        translation.add(setting, user, each)
    return each._replace(raw_value=module.options.get("password", "")).value_file


def _module_name(each: Property) -> str:
    """Return the login module of a JAAS configuration; empty for what is none."""
    try:
        return _read_jaas(each).name
    except (ValueError, ConfigurationError):
        return ""  # `_add_jaas` says what is wrong, if the property is needed


def _add_oauth(translation: Translation, each: Property, client: ClientRules) -> None:
    """Add the client credentials of a JAAS configuration for OAUTHBEARER. Raises ConfigurationError."""
    options = dict(_read_jaas(each).options)
    secret = options.pop("clientSecret", None)
    ca_file = kebab(f"{client.side}OauthCaFile")
    _add_options(
        translation,
        each,
        client,
        LoginModule(_OAUTH_MODULE, options),
        advice=f"give clientId, clientSecret and scope, and the CA certificates of the token endpoint with "
        f"--{ca_file}=FILE",
    )
    if secret is not None:
        file = each._replace(raw_value=secret).value_file
        _add_secret(translation, each, f"{client.side}OauthClientSecretFile", file, client)


def _add_kerberos(translation: Translation, each: Property, client: ClientRules) -> None:
    """Add keytab and principal of a JAAS configuration for GSSAPI. Raises ConfigurationError."""
    options = {name: text for name, text in _read_jaas(each).options.items() if name not in _KERBEROS_IGNORED}
    advice = "give keyTab and principal, or neither for the ticket in the user's cache"
    _add_options(translation, each, client, LoginModule(_KERBEROS_MODULE, options), advice=advice)


def _add_msk(translation: Translation, each: Property, client: ClientRules) -> None:
    """Add the profile of a JAAS configuration for Amazon MSK. Raises ConfigurationError."""
    advice = "give awsProfileName alone, of a profile that assumes the role"
    _add_options(translation, each, client, _read_jaas(each), advice=advice)
    region = f"{client.side}OauthMskRegion"
    if region not in client.given:
        raise ConfigurationError(
            f"The login of {each.key} ({each.origin}) at Amazon MSK needs the region of the cluster; give "
            f"--{kebab(region)}=REGION, such as eu-north-1."
        )


def _add_options(
    translation: Translation, each: Property, client: ClientRules, module: LoginModule, *, advice: str
) -> None:
    """Add the options of a login module that are settings, by `_MODULE_OPTIONS`; refuse the others, with advice."""
    options = dict(module.options)
    for name, setting in _MODULE_OPTIONS[module.name].items():
        text = each.resolve(options.pop(name, ""))
        if text and f"{client.side}{setting}" not in client.given:
            translation.add(f"{client.side}{setting}", text, each)
    if options:
        raise ConfigurationError(
            f"The property {each.key} ({each.origin}) has the option {shown_name(min(options))} of {module.name}, "
            f"which this program does not have; {advice}."
        )


_WITHOUT_PASSWORD = {_OAUTH_MODULE: _add_oauth, _KERBEROS_MODULE: _add_kerberos, _MSK_MODULE: _add_msk}
"""Login modules with other options than a user name and a password."""


def _read_jaas(each: Property) -> LoginModule:
    """Read a JAAS configuration, with its references in quotes if possible. Raises ValueError."""
    try:
        return read_jaas(each.raw_value)
    except ValueError:
        return read_jaas(each.value)


def settle(translation: Translation, known: Iterable[str], *, ignore_unknown: bool) -> None:
    """Ignore the unknown properties, or raise ConfigurationError with all unknown and refused ones and their lines."""
    if ignore_unknown:
        translation.ignored |= {shown_name(each.key): IGNORED for each in translation.unknown}
    else:
        with translation.refusals.collect():
            refuse_unknown(
                map(_unknown_name, translation.unknown),
                known,
                noun=("property", "properties"),
                advice=f", or give --{kebab(IGNORE_UNKNOWN)}",
            )
    translation.refusals.settle()


def _unknown_name(each: Property) -> UnknownName:
    file, _, line = each.origin.removeprefix("in ").rpartition(", line ")
    return UnknownName(file, int(line), each.key)
