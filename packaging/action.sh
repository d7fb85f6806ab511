#!/usr/bin/env bash
# The GitHub Action: runs ACTION_RUN under limits, and writes the summary into the job's page.
set -uo pipefail

limits=()
if [ -n "${ACTION_USD:-}" ]; then limits+=(--usd "$ACTION_USD"); fi
if [ -n "${ACTION_STEPS:-}" ]; then limits+=(--steps "$ACTION_STEPS"); fi
# Options of `endstop run`, parted by spaces.
read -ra more <<<"${ACTION_ARGS:-}"

report=$RUNNER_TEMP/endstop.json
errors=$RUNNER_TEMP/endstop.txt
endstop run ${limits[@]+"${limits[@]}"} ${more[@]+"${more[@]}"} --json-file "$report" -- \
    bash -eo pipefail -c "$ACTION_RUN" 2> >(tee "$errors" >&2)
code=$?
# The copy of the error output ends a moment after the command.
wait

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
    lines = [line for line in file.read().splitlines() if line.startswith("endstop:")]
print("```text", *lines[-20:], "```", sep="\n")
with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
    print(f"exit-code={code}", f"stop-reason={reason}", f"report={report}", sep="\n", file=file)
PYTHON
exit "$code"
