"""Owns the command ``gapless bundle``; must not know what makes a bundle good, nor how an object store is asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gapless_api.bundle import Bundle
    from gapless_api.object_store import ObjectAddress

_MOST_NAMED = 5
"""So many partitions are named in a sentence, the rest is counted."""
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def bundle() -> None:
    """Look into a bundle, sign it, verify it, fetch it from an object store."""


@bundle.command()
@_FILE
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def show(file: Path, *, as_json: bool) -> None:
    """Check the bundle FILE and say how much is missing in each partition."""
    from gapless_api.bundle import read_bundle  # noqa: PLC0415 -- not needed for --help

    shown = _summary(read_bundle(file))
    if as_json:
        click.echo(json.dumps(shown, ensure_ascii=False))
        return
    mark = shown["gapless"]
    if mark is None:
        click.echo("Made by another program: no id, no digest, no signature.")
    else:
        click.echo(f"id       {mark['id']}\ncreated  {mark['created']}\nsha256   {mark['sha256']} (checked)")
        for name, text in mark["source"].items():
            click.echo(f"source   {name}: {text}")
        click.echo(f"signed   {'yes, see gapless bundle verify' if 'signature' in mark else 'no'}")
    wanted = "what is listed" if shown["type"] == "all" else "everything from the first missing offset on"
    click.echo(f"type     {shown['type']} (send {wanted})")
    width = max([len("topic"), *(len(entry["topic"]) for entry in shown["partitions"])])
    click.echo(f"\n{'topic':<{width}}  partition     missing      ranges  first … last")
    for entry in shown["partitions"]:
        reach = f"{entry['first']} … {entry['last']}" if entry["ranges"] else "none"
        numbers = f"{entry['partition']:>9}  {entry['missing']:>10}  {entry['ranges']:>10}"
        click.echo(f"{entry['topic']:<{width}}  {numbers}  {reach}")
    click.echo(f"\n{shown['missing']} missing in {shown['ranges']} ranges of {len(shown['partitions'])} partitions.")
    if shown["inferred"]["missing"]:
        named = [f"{entry['topic']}/{entry['partition']}" for entry in shown["inferred"]["partitions"]]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        click.echo(
            f"{shown['inferred']['missing']} of them nobody has reported, they are inferred: "
            f"{', '.join(named[:_MOST_NAMED])}{more}."
        )


@bundle.command()
@_FILE
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Ed25519 private key (PEM, PKCS#8).")
@click.option("--output", type=click.Path(path_type=Path), help="Where to write; FILE itself when not given.")
def sign(file: Path, key: Path, output: Path | None) -> None:
    """Check the bundle FILE and write it again with a signature.

    Make a key with  openssl genpkey -algorithm ed25519 -out key.pem  and its public half, for the other side, with
    openssl pkey -in key.pem -pubout -out public.pem
    """
    from gapless_api.bundle import read_bundle, write_signed  # noqa: PLC0415 -- not needed for --help

    mark = write_signed(output or file, read_bundle(file), created=datetime.now(UTC), signing_key=key)
    click.echo(f"Signed {output or file} (id {mark.id}, {mark.missing} missing).")


@bundle.command()
@_FILE
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Ed25519 public key (PEM).")
def verify(file: Path, key: Path) -> None:
    """Check the bundle FILE and its signature; end with 2 when either is wrong."""
    from gapless_api.bundle import read_bundle  # noqa: PLC0415 -- not needed for --help

    verified = read_bundle(file, verification_key=key)
    assert verified.mark is not None  # noqa: S101 -- for the type checker: only a mark has a signature
    click.echo(f"The signature of {file} is good (id {verified.mark.id}, {verified.mark.missing} missing).")


class _Address(click.ParamType[Any]):
    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from gapless_api.object_store import ObjectAddress  # noqa: PLC0415 -- not needed for --help

        try:
            return ObjectAddress.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} must be {error}", param, ctx)


@bundle.command()
@click.argument("url", type=_Address())
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Where to write the bundle.")
@click.option("--sha256", metavar="DIGEST", help="Digest that the bundle must have, as gapless bundle show says it.")
@click.option(
    "--endpoint-url", "--s3-endpoint-url", default="", help="Address of the store. [default: the public cloud's]"
)
@click.option("--region", "--s3-region", default="us-east-1", show_default=True, help="Region of the store.")
@click.option(
    "--access-key-file",
    "--s3-access-key-file",
    type=click.Path(path_type=Path),
    help="File with the access key; without it requests are not signed.",
)
@click.option(
    "--secret-key-file", "--s3-secret-key-file", type=click.Path(path_type=Path), help="File with the secret key."
)
@click.option(
    "--session-token-file",
    "--s3-session-token-file",
    type=click.Path(path_type=Path),
    help="File with a session token.",
)
@click.option(
    "--ca-file",
    "--s3-ca-file",
    type=click.Path(path_type=Path),
    help="Certificates (PEM) to trust beside the system's.",
)
def fetch(url: ObjectAddress, output: Path, sha256: str | None, **access: Any) -> None:
    """Fetch the bundle s3://BUCKET/KEY from an S3-compatible store and check it; nothing is left of a bad one.

    Credentials come from files only, so that they show neither among the processes nor in the environment.
    """
    from gapless_api.bundle_fetch import fetch_bundle  # noqa: PLC0415 -- not needed for --help
    from gapless_api.object_store import S3Access, open_store  # noqa: PLC0415

    found = fetch_bundle(open_store(url.bucket, S3Access(**access)), url, output, sha256=sha256)
    click.echo(f"Fetched {output} ({found.missing} missing in {len(found.results)} partitions).")


def _inferred(found: Bundle) -> dict[str, Any]:
    """How much of it nobody has reported, and the partitions with such ranges."""
    listed = found.mark.inferred if found.mark is not None else ()
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
        }
        for entry in listed
    ]
    return {"missing": sum(entry.ranges.count for entry in listed), "partitions": partitions}


def _summary(found: Bundle) -> dict[str, Any]:
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
            "first": entry.ranges.first_offset if len(entry.ranges) else None,
            "last": entry.ranges.last_offset if len(entry.ranges) else None,
        }
        for entry in found.results
    ]
    return {
        "type": str(found.kind),
        "missing": found.missing,
        "ranges": sum(len(entry.ranges) for entry in found.results),
        "partitions": partitions,
        "inferred": _inferred(found),
        "gapless": None if found.mark is None else found.mark.members(),
    }
