#!/bin/sh
# The work of a training run, from which the profile of a release is taken: calls through gateways, and all else that takes time.
# Usage: train.sh all TIMES ENDSTOP BODIES TRANSCRIPTS
#        train.sh calls TIMES BODIES OPENAI_BASE ANTHROPIC_BASE GEMINI_BASE
# Each call is made TIMES times. BODIES has a request of each API, in which RESULT is the place of a tool result.
set -eu

# Sends a request many times on one connection, and then on several.
post() {
    for parallel in 1 8; do
        curl --fail --no-progress-meter --output /dev/null --parallel --parallel-max "$parallel" \
            --header 'content-type: application/json' --header 'x-api-key: none' --data @body.json "$1[1-$times]"
    done
}

calls() {
    times=$1 bodies=$2 openai=$3 anthropic=$4 gemini=$5/v1beta/models/gemini-2.5-flash
    for result in 3 9000; do
        for stream in false true; do
            for api in "chat $openai/chat/completions" "responses $openai/responses" "messages $anthropic/v1/messages"; do
                sed "s/RESULT/$(seq -s ' ' $result)/; s/STREAM/$stream/" "$bodies/${api%% *}.json" >body.json
                post "${api#* }?call="
            done
        done
        sed "s/RESULT/$(seq -s ' ' $result)/" "$bodies/gemini.json" >body.json
        post "$gemini:generateContent?call="
        post "$gemini:streamGenerateContent?alt=sse&call="
    done
}

# Starts a server of Endstop with the given arguments, and waits for its address.
serve() {
    name=$1
    shift
    "$endstop" "$@" --listen 127.0.0.1:0 >"$name.log" 2>&1 &
    pids="$! $pids"
    tries=0
    until address=$(grep -o 'http://127.0.0.1:[0-9]*' "$name.log" | head -n 1) && [ "$address" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { cat "$name.log"; exit 1; }
        sleep 0.1
    done
}

all() {
    times=$1 endstop=$2 bodies=$3 transcripts=$4
    script=$0
    limits='--usd 1000000 --steps 100000000'

    # A gateway of many runs.
    pids=
    trap 'kill $pids 2>/dev/null || true' EXIT
    serve sim sim --script answer
    upstream=$address
    # shellcheck disable=SC2086
    serve gateway serve --upstream "$upstream" $limits
    calls "$times" "$bodies" "$address/r/a/v1" "$address/r/b" "$address/r/c"
    # Counts are written at an ordinary end only.
    for pid in $pids; do
        kill -INT "$pid"
        wait "$pid"
    done
    pids=

    # One of a command, and calls to fixed addresses by TLS.
    # shellcheck disable=SC2086
    "$endstop" run --quiet --intercept --upstream sim:answer $limits -- sh "$script" calls "$times" "$bodies" \
        https://api.openai.com/v1 https://api.anthropic.com https://generativelanguage.googleapis.com

    "$endstop" agent --quiet --model scripted:loop --steps $((times * 10)) 'go on' >/dev/null || [ $? -eq 124 ]
    "$endstop" demo >/dev/null
    for _ in $(seq $((times / 20 + 1))); do
        for transcript in "$transcripts"/*; do
            # The results that tests expect of the other files.
            [ "${transcript##*/}" = expected ] && continue
            "$endstop" replay "$transcript" --stop 'steps >= 50 or cost >= $1.00 or no_progress >= 8' >/dev/null
        done
    done
}

command=$1
shift
$command "$@"
