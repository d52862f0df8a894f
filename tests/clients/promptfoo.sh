#!/usr/bin/env bash
# usage: [PROMPTFOO=COMMAND] tests/clients/promptfoo.sh BUILD_FOLDER
# Lets promptfoo (npm's) evaluate answers of `tapegrad serve` that must be JSON of a schema, and calls that must fit theirs; one
# assertion must fail. It gets a home of its own. Skipped, with a word, where it is not installed.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
promptfoo=${PROMPTFOO:-$(command -v promptfoo || echo "$here/node_modules/.bin/promptfoo")}
# PROMPTFOO may be of several words: another node, for example.
read -ra promptfoo <<<"$promptfoo"
if ! command -v "${promptfoo[0]}" >/dev/null; then
  echo "skipped: promptfoo is not installed (npm install --prefix FOLDER promptfoo; PROMPTFOO=FOLDER/node_modules/.bin/promptfoo)"
  exit 0
fi
. "$here/tiny_chat.sh"
serve_tiny_chat "$1" 4096 --log none
cat >"$work/evaluation.yaml" <<YAML
prompts: ["Which pet has {{legs}} legs?"]
providers:
  - id: openai:chat:tiny-chat
    label: schema
    config: &config
      apiBaseUrl: $url/v1
      apiKey: right-key
      max_tokens: 400
      temperature: 2
      seed: 4
      response_format: &format
        type: json_schema
        json_schema:
          name: pet
          strict: true
          schema: &pet
            type: object
            properties: {kind: {enum: [cat, dog]}, legs: {type: integer, minimum: 0, maximum: 9}}
            required: [kind, legs]
            additionalProperties: false
  - id: openai:chat:tiny-chat
    label: calls
    config:
      apiBaseUrl: $url/v1
      apiKey: right-key
      max_tokens: 400
      temperature: 2
      seed: 4
      tools: [{type: function, function: {name: pet, parameters: *pet}}]
      tool_choice: {type: function, function: {name: pet}}
  - id: openai:responses:tiny-chat
    label: responses
    config: {apiBaseUrl: $url/v1, apiKey: right-key, max_output_tokens: 400, response_format: *format}
tests:
  - vars: {legs: 4}
    providers: [schema, responses]
    assert: [{type: is-json, value: *pet}, {type: contains-json}]
  - vars: {legs: 4}
    providers: [calls]
    assert: [{type: is-valid-openai-tools-call}]
  - vars: {legs: 8}
    providers: [schema]
    assert: [{type: equals, value: eight}]
YAML
mkdir "$work/home"
status=0
(cd "$work" && HOME=$work/home PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 timeout 300 "${promptfoo[@]}" eval \
  --config evaluation.yaml --no-cache --no-write --output results.json >"$work/shown" 2>&1) || status=$?
[ $status -eq 100 ] || { cat "$work/shown"; exit 1; } # an assertion failed
python3 - "$work/results.json" <<'PYTHON'
import json
import sys

results = json.load(open(sys.argv[1]))["results"]
failed = [result for result in results["results"] if not result["success"]]
assert [result["vars"]["legs"] for result in failed] == [8], failed
assert results["stats"] and (results["stats"]["successes"], results["stats"]["errors"]) == (3, 0), results["stats"]
PYTHON
echo "promptfoo $("${promptfoo[@]}" --version): three answers fit their assertions, and one does not, as it should be"
