#!/bin/sh
# Makes a corpus, conversations and preferences of WordNet's dictionary, for docs/worked-case.md.
#
#   examples/wordnet_chats.sh OUT [FILE…]
#
# FILE is one of WordNet's, such as data.noun [/usr/share/wordnet/data.adv, of the Debian package
# wordnet-base]. OUT gets
#   glosses.txt        one entry a line: its words, what they mean, and how they are used
#   chats.jsonl        questions about entries, and answers that also tell how a word is used
#   preferences.jsonl  the same questions about other entries, with a short and a long answer
set -eu
out=${1:?the folder for the files}
shift
[ $# -gt 0 ] || set -- /usr/share/wordnet/data.adv
mkdir -p "$out"
LC_ALL=C awk -v out="$out" '
function json(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/"/, "\\\"", text)
  return "\"" text "\""
}
function trimmed(text) {
  gsub(/^[ ;]+|[ ;]+$/, "", text)
  return text
}
/^  / { next }  # the licence, which stands before the entries
{
  bar = index($0, " | ")
  if (bar == 0) next
  gloss = trimmed(substr($0, bar + 3))
  count = split(substr($0, 1, bar), field, " ")
  word = field[5]
  words = ""
  for (i = 0; i < hex(field[4]); ++i) {
    name = field[5 + 2 * i]
    sub(/\([a-z]+\)$/, "", name)  # "(a)": where an adjective may stand
    gsub(/_/, " ", name)
    words = words (i ? ", " : "") name
    if (i == 0) word = name
  }
  print words ": " gloss > (out "/glosses.txt")
  # What it means, and a sentence in which it is used.
  quote = index(gloss, "\"")
  if (quote == 0) next
  meaning = trimmed(substr(gloss, 1, quote - 1))
  rest = substr(gloss, quote + 1)
  end = index(rest, "\"")
  if (meaning == "" || end == 0) next
  sentence = trimmed(substr(rest, 1, end - 1))
  if (sentence == "") next
  ++number
  question = number % 2 ? "What does \"" word "\" mean?" : "Tell me what \"" word "\" is."
  short = meaning "."
  long = meaning ", as in: " sentence (sentence ~ /[.?!]$/ ? "" : ".")
  if (number % 8 == 0) {
    print "{\"prompt\":" json(question) ",\"chosen\":" json(short) ",\"rejected\":" json(long) "}" \
      > (out "/preferences.jsonl")
  } else {
    print "{\"prompt\":" json(question) ",\"completion\":" json(long) "}" > (out "/chats.jsonl")
  }
}
function hex(text,  i, value) {
  for (i = 1; i <= length(text); ++i) {
    value = 16 * value + index("0123456789abcdef", substr(text, i, 1)) - 1
  }
  return value
}' "$@"
wc -lc "$out/glosses.txt" "$out/chats.jsonl" "$out/preferences.jsonl"
