#!/bin/sh
# Pushes the images of this release into a registry, and writes the values of the chart that name them there.
set -eu

usage() {
  cat <<'USAGE'
Usage: ./load.sh REGISTRY [--insecure] [--values=FILE]

Pushes gapless/operator, gapless/sender and gapless/spark to REGISTRY, for example registry.example or
registry.example:5000/mirror, compares their digests there, and writes them to FILE for helm:

  helm upgrade --install gapless gapless-chart-*.tgz -f gapless-images.yaml …

  --insecure       the registry has no TLS, or a certificate that this machine does not know
  --values=FILE    write the values to FILE (default: gapless-images.yaml)

For a registry with a password, log in first: images/crane-$(uname -m) auth login REGISTRY --help
Exit codes: 0 all is there, 2 wrong arguments or a damaged release, 3 the registry did not take the images.
USAGE
}

fail() {
  echo "load.sh: $2" >&2
  exit "$1"
}

registry='' insecure='' values=gapless-images.yaml
for argument in "$@"; do
  case $argument in
    -h | --help) usage; exit 0 ;;
    --insecure) insecure=--insecure ;;
    --values=?*) values=${argument#--values=} ;;
    -*) fail 2 "$argument is unknown: see ./load.sh --help." ;;
    *) [ -z "$registry" ] || fail 2 "Give one registry, and not $registry and $argument."; registry=${argument%/} ;;
  esac
done
[ -n "$registry" ] || { usage >&2; exit 2; }
case $registry in *://* | *' '* | *'"'*) fail 2 "$registry is not a registry: give its name without https://." ;; esac
[ -d "$(dirname "$values")" ] || fail 2 "The folder of $values does not exist: create it, or give another file."

here=$(cd "$(dirname "$0")" && pwd)
version=@VERSION@
crane=$here/images/crane-$(uname -m)
[ -x "$crane" ] || fail 2 "There is no program for $(uname -m) in $here/images: use a machine with x86_64 or aarch64."
echo "==> the digests of this release"
(cd "$here" && sha256sum -c SHA256SUMS >/dev/null) || fail 2 "This release is damaged: copy it again."

written=$(mktemp "$values.XXXXXX")
trap 'rm -f "$written"' EXIT
printf 'image:\n  registry: "%s"\nimages:\n' "$registry" >"$written"
while read -r digest name; do
  image=$registry/gapless/$name:$version
  echo "==> $image"
  # shellcheck disable=SC2086 # nothing, or one option
  said=$("$crane" push $insecure "$here/images/$name" "$image" 2>&1) || {
    echo "$said" >&2
    fail 3 "$registry did not take $image."
  }
  # shellcheck disable=SC2086
  found=$("$crane" digest $insecure "$image") || fail 3 "$registry took $image, but does not have it."
  [ "$found" = "$digest" ] || fail 3 "$registry has another image as $image: $found, and not $digest."
  printf '  %s:\n    tag: "%s"\n    digest: "%s"\n' "$name" "$version" "$digest" >>"$written"
done <"$here/images/digests"
chmod 644 "$written"
mv "$written" "$values"
trap - EXIT
echo "==> $values names the images for helm: -f $values"
