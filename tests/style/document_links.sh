#!/usr/bin/env bash
# Links of documents lead to files and headings that are there.
# SPDX-License-Identifier: Apache-2.0
# Usage: document_links.sh FOLDER: looks at its *.md and those of docs/, however deep.
set -u
cd "$1" || exit 1

# The anchors that headings of a page have, as GitHub makes them.
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print }' "$1" |
    tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

dead=0
seen=0
while IFS= read -r page; do
  while IFS= read -r link; do
    case $link in '' | http://* | https://* | mailto:*) continue ;; esac
    seen=$((seen + 1))
    path=${link%%#*}
    target=$(dirname "$page")/$path
    [ -n "$path" ] || target=$page
    if [ ! -e "$target" ]; then
      echo "$page: nothing is at $link"
      dead=$((dead + 1))
    elif [ "${link#*#}" != "$link" ] && [ "${target%.md}" != "$target" ] &&
      ! anchors "$target" | grep -qxF -- "${link#*#}"; then
      echo "$page: no heading of $link"
      dead=$((dead + 1))
    fi
  done < <(awk '/^```/ { code = !code } !code' "$page" | sed 's/`[^`]*`//g' |
    grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
done < <(find . -maxdepth 1 -name '*.md' && find docs -name '*.md')
echo "$seen links, $dead dead"
[ "$dead" = 0 ] && [ "$seen" -gt 0 ]
