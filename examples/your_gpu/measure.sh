#!/bin/sh
# Six runs of vLLM's own benchmark, under 20 minutes of GPU, from which dynamo.calibrate learns your GPU.
#
#   MODEL=Qwen/Qwen3-32B URL=http://localhost:8000 sh measure.sh
#
# URL is where vLLM answers, and RUNS the folder of the results: a run that is there is not run again.
set -eu
: "${MODEL:?the name of the model, as the server knows it}"
URL=${URL:-http://localhost:8000}
RUNS=${RUNS:-runs}
mkdir -p "$RUNS"

# bench NAME CLIENTS PROMPTS INPUT_TOKENS OUTPUT_TOKENS
bench() {
    [ -s "$RUNS/$1.json" ] || vllm bench serve --backend openai --base-url "$URL" --endpoint /v1/completions \
        --model "$MODEL" --dataset-name random --random-range-ratio 0 --ignore-eos --seed 1 \
        --max-concurrency "$2" --num-prompts "$3" --random-input-len "$4" --random-output-len "$5" \
        --save-result --result-dir "$RUNS" --result-filename "$1.json"
}

bench alone 1 20 1024 256      # overhead of a request, and duration of a pass
bench few 4 40 1024 256
bench some 16 160 1024 256
bench many 64 384 1024 256     # what full batches cost
bench long 2 24 8192 128       # prompts
bench long-many 12 72 8192 128 # prompts beside answers
