#!/usr/bin/env bash
# usage: scripts/loss_curve.sh RUN_FOLDER >curve.svg
# Draws the losses of a run from its metrics.jsonl: of each iter line, and of the evaluations.
set -euo pipefail
awk '
function number(name) {  # of this line; "" if it has none
  if (!match($0, "\"" name "\":[-+.0-9eE]+")) return ""
  return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0
}
function x(iteration) { return left + (width - left - 20) * iteration / last }
function y(loss) { return 44 + (height - 84) * (top - loss) / (top - bottom) }
function text(at_x, at_y, anchor, words) {
  printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", at_x, at_y, anchor, words
}
function line(path, style) { printf "<path d=\"M%s\" fill=\"none\" %s/>\n", path, style }
function add(path, iteration, loss) {
  return path sprintf("%s%.1f %.1f", path == "" ? "" : " L", x(iteration), y(loss))
}
{ step[NR] = number("iteration"); loss[NR] = number("loss"); val[NR] = number("val_loss") }
{ if (step[NR] > last) last = step[NR] }
{ for (i = 1; i <= 2; ++i) { v = i == 1 ? loss[NR] : val[NR]; if (v != "" && v > most) most = v
    if (v != "" && (least == "" || v < least)) least = v } }
END {
  width = 720; height = 324; left = 50
  bottom = int(least * 2) / 2; top = int(most * 2 + 1) / 2
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", width, height
  print "font-family=\"sans-serif\" font-size=\"12\" fill=\"#444\">"
  print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
  for (v = bottom; v <= top; v += 0.5) {
    line(sprintf("%d %.1f H%d", left, y(v), width - 20), "stroke=\"#ddd\"")
    text(left - 8, y(v) + 4, "end", sprintf("%.1f", v))
  }
  for (i = 0; i <= 4; ++i) text(x(last * i / 4), height - 22, "middle", int(last * i / 4))
  text((left + width) / 2, height - 6, "middle", "steps")
  for (i = 1; i <= NR; ++i) {
    if (loss[i] != "") curve = add(curve, step[i], loss[i])
    if (val[i] == "") continue
    dots = dots sprintf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x(step[i]), y(val[i]))
    evaluations = add(evaluations, step[i], val[i]); final = val[i]
  }
  line(curve, "stroke=\"#9bb8d3\"")
  line(evaluations, "stroke=\"#c0392b\" stroke-width=\"2\"")
  print "<g fill=\"#c0392b\">\n" dots "</g>"
  text(left - 40, 24, "start", "loss (nats per token)")
  text(width - 20, 24, "end", "<tspan fill=\"#6b93ba\">a training batch</tspan>" \
    "<tspan dx=\"24\" fill=\"#c0392b\">validation</tspan>")
  print "</svg>"
}' "$1/metrics.jsonl"
