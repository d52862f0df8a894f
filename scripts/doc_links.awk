# Reads a document of this project and writes it for Doxygen: links to what is not one of its pages
# (sources, folders, sections) become plain text.
/^ *```/ { fenced = !fenced }
{
  line = $0
  out = ""
  while (!fenced && match(line, /\[[^][]*\]\([^()]*\)/)) {
    link = substr(line, RSTART, RLENGTH)
    middle = index(link, "](")
    target = substr(link, middle + 2, length(link) - middle - 2)
    is_image = RSTART > 1 && substr(line, RSTART - 1, 1) == "!"
    is_page = target ~ /^https?:/ || target ~ /^(docs\/)?[A-Za-z-]+\.md$/
    if (target == "CONTRIBUTING.md") is_page = 0
    out = out substr(line, 1, RSTART - 1) (is_image || is_page ? link : substr(link, 2, middle - 2))
    line = substr(line, RSTART + RLENGTH)
  }
  print out line
}
