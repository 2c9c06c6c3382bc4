# Sourced by the scripts beside it: one line a step with its elapsed time, everything else in a log.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log_dir=$root/build/logs
mkdir -p "$log_dir"
log=$log_dir/$(basename "$0").log
: >"$log"

# What is slow to make and the same in every checkout lives here, keyed by a hash of its sources.
cache_dir=${OPSCTL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/opsctl}

# step NAME COMMAND...: run it quietly; on failure show the end of its output and return 1.
step() {
  local name=$1 start=$SECONDS rc=0
  shift
  printf '%-44s ' "$name"
  # Not inside an `if`: there bash would go on after an error in the command.
  set +e
  (
    set -e
    "$@"
  ) >>"$log" 2>&1 </dev/null
  rc=$?
  set -e
  if [ $rc -eq 0 ]; then
    printf 'ok  %4d s\n' $((SECONDS - start))
    return 0
  fi
  printf 'FAILED  %d s\n' $((SECONDS - start))
  tail -n "${OPSCTL_LOG_LINES:-25}" "$log" | sed 's/^/    /'
  printf '\nThe whole output: %s\n' "$log" >&2
  return 1
}
