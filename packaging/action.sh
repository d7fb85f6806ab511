#!/usr/bin/env bash
# The GitHub Action: runs ACTION_RUN under limits, and writes the summary into the job's page.

# Endstop recognizes a program that it starts itself, and not one that a shell starts. So one plain command is
# started without a shell. Its arguments are plain or quoted as a whole, and nothing but variables is expanded in them.
action_command=(bash -eo pipefail -c "${ACTION_RUN:-}")
action_plain=$(sed -E "s/'[^']*'|\"([^\"\$\`\\\\]|\\\$[A-Za-z_])*\"/q/g" <<<"${ACTION_RUN:-}")
case $action_plain in
    *[!A-Za-z0-9_./:=,@%+\ -]*) ;;
    *)
        if eval "action_words=($ACTION_RUN)" 2>/dev/null && [ "$(type -t -- "${action_words[0]:-}")" = file ]; then
            action_command=("${action_words[@]}")
        fi
        ;;
esac
set -uo pipefail

limits=()
if [ -n "${ACTION_USD:-}" ]; then limits+=(--usd "$ACTION_USD"); fi
if [ -n "${ACTION_STEPS:-}" ]; then limits+=(--steps "$ACTION_STEPS"); fi
# Options of `endstop run`, parted by spaces.
read -ra more <<<"${ACTION_ARGS:-}"

report=$RUNNER_TEMP/endstop.json
errors=$RUNNER_TEMP/endstop.txt
# The copy of the error output begins before Endstop, which would otherwise wait for `tee` as for a process of the command.
copy=$RUNNER_TEMP/endstop.pipe
rm -f "$copy"
mkfifo "$copy" || exit 125
tee "$errors" <"$copy" >&2 &
exec 3>"$copy"
endstop run ${limits[@]+"${limits[@]}"} ${more[@]+"${more[@]}"} --json-file "$report" -- "${action_command[@]}" 2>&3 3>&-
code=$?
exec 3>&-
wait
rm -f "$copy"

python3 - "$report" "$errors" "$code" >>"$GITHUB_STEP_SUMMARY" <<'PYTHON'
import json, os, sys

report, errors, code = sys.argv[1:]
try:
    with open(report, encoding="utf-8") as file:
        summary = json.load(file)
except (OSError, ValueError):
    summary = {}
run = summary.get("report") or {}
totals, spend = run.get("totals") or {}, run.get("spend") or {}
reason = (run.get("reason") or "") if summary.get("stopped") else ""
print("### Endstop:", f"stopped ({reason})" if reason else "not stopped")
print()
print(f"{totals.get('steps', 0)} steps, {totals.get('tokens', 0)} tokens, ${spend.get('usd', '?')}")
print()
with open(errors, encoding="utf-8", errors="replace") as file:
    lines, is_own = [], False
    for line in file.read().splitlines():
        # Long lines go on with two spaces.
        is_own = line.startswith("endstop:") or (is_own and line.startswith("  "))
        if is_own:
            lines.append(line)
print("```text", *lines[-20:], "```", sep="\n")
with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
    print(f"exit-code={code}", f"stop-reason={reason}", f"report={report}", sep="\n", file=file)
PYTHON
exit "$code"
