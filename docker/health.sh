#!/bin/sh
# The health check of the node's container: `health.sh [SECONDS]`. Prints the node's newest report (src/health_file.rs).
# Fails if a part is at ERROR, or if the report is older than SECONDS (5). Give at least three times
# diagnostics_period_s.
file=${ROBOCACHE_HEALTH_FILE:?expected the name of a file, found none} most_s=${1:-5}
if ! written_s=$(stat -c %Y "$file" 2>/dev/null); then
  echo "no report yet: $file"
  exit 1
fi
age_s=$(($(date +%s) - written_s))
cat "$file"
# A clock that was set back tells no age.
if [ "$age_s" -gt "$most_s" ] || [ "$age_s" -lt 0 ]; then
  echo "the node has not reported for $age_s s, expected 0 to $most_s s"
  exit 1
fi
read -r level <"$file"
[ "$level" != ERROR ]
