#!/usr/bin/env bash
# The GitHub Action: installs Endstop into ENDSTOP_PREFIX, and puts it on the PATH of the steps that follow.
#
# VERSION           the version; the newest release if empty or `latest`
# ENDSTOP_RELEASES  where the releases are, if not on their page
set -euo pipefail

releases=${ENDSTOP_RELEASES:-https://github.com/endstop-dev/endstop/releases}
case ${VERSION:-latest} in
    latest) from=$releases/latest/download ;;
    *) from=$releases/download/v$VERSION ;;
esac
curl -fsSL "$from/install.sh" | sh
echo "$ENDSTOP_PREFIX/bin" >>"$GITHUB_PATH"
