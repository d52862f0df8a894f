# Reads a header of this project and writes it for Doxygen: plain comments become its "///", or "///<"
# after a member. Comments inside function bodies stay plain, as do those that an empty line separates
# from the next declaration; at the top of a file, the latter describe the file.

# The text with < and > escaped, except in "quotes", which Doxygen shows as they are.
function without_tags(text,    out, pieces, n, i) {
  n = split(text, pieces, "\"")
  for (i = 1; i <= n; i++) {
    if (i % 2 == 1 || i == n) gsub(/[<>]/, "\\\\&", pieces[i])
    out = out (i > 1 ? "\"" : "") pieces[i]
  }
  return out
}

# The text with all characters escaped that Doxygen or Markdown would interpret, except in `code`.
function escaped(text,    out, parts, n, i) {
  n = split(text, parts, "`")
  for (i = 1; i <= n; i++) {
    if (i % 2 == 1 || i == n) {
      gsub(/[\\@#%&*]/, "\\\\&", parts[i])
      parts[i] = without_tags(parts[i])
      gsub(/--/, "\\--", parts[i])
    }
    out = out (i > 1 ? "`" : "") parts[i]
  }
  return out
}

# The line without comments, strings and characters; sets `comment` to where the comment begins.
function code_of(line,    out, i, c, quote) {
  comment = 0
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (quote != "") {
      if (c == "\\") i++
      else if (c == quote) quote = ""
    } else if (c == "\"" || (c == "'" && substr(line, i - 1, 1) !~ /[0-9A-Fa-f]/)) {
      quote = c
    } else if (substr(line, i, 2) == "//") {
      comment = i
      break
    } else {
      out = out c
    }
  }
  return out
}

# Follows the braces: what is inside of a namespace, class or enum is documented, a body is not.
function follow(code,    i, c, is_scope) {
  for (i = 1; i <= length(code); i++) {
    c = substr(code, i, 1)
    if (c == "{") {
      is_scope = (" " statement " ") ~ /[^A-Za-z_](namespace|class|struct|enum|union)[^A-Za-z_]/
      if (statement ~ /\(/) is_scope = 0
      if (!is_scope) bodies++
      scope[++depth] = is_scope
      statement = ""
    } else if (c == "}") {
      if (!scope[depth--]) bodies--
      statement = ""
    } else if (c == ";") {
      statement = ""
    } else {
      statement = statement c
    }
  }
  statement = statement " "
}

# Writes the comment block that stands before `next_line`.
function flush_block(next_line,    i, text, in_list, fenced) {
  if (block == 0) return
  detached = next_line ~ /^[ \t]*$/
  if (next_line ~ /^[ \t]*}/ || (detached && began)) {
    for (i = 1; i <= block; i++) print "//" lines[i]
  } else {
    if (detached) print "/// \\file"
    for (i = 1; i <= block; i++) {
      text = lines[i]
      if (text ~ /^ - /) in_list = 1
      else if (text !~ /^   /) in_list = 0
      if (text ~ /^   / && !in_list) {  # a formula or a table keeps its lines
        if (!fenced) print "///\n/// ~~~{.unparsed}"
        fenced = 1
        print "///" text
        continue
      }
      if (fenced) print "/// ~~~"
      fenced = 0
      print "///" escaped(text)
    }
    if (fenced) print "/// ~~~"
  }
  block = 0
}

# "// --- Title. More. ---" begins a group of functions that lasts until the next one.
function begin_group(text,    title, more, dot) {
  sub(/^ *-+ */, "", text)
  sub(/ *-+ *$/, "", text)
  dot = index(text, ". ")
  title = dot ? substr(text, 1, dot - 1) : text
  sub(/[.:]$/, "", title)
  more = dot ? substr(text, dot + 2) : ""
  end_group()
  print "/// \\name " escaped(title)
  if (more != "") print "/// " escaped(more)
  print "/// \\{"
  in_group = 1
}
function end_group() {
  if (in_group) print "\n/// \\}"
  in_group = 0
}

/^[ \t]*\/\// {
  text = $0
  sub(/^[ \t]*\/\//, "", text)
  if (bodies > 0 || statement ~ /\(/) { print; next }
  if (trailing && index($0, "//") == trailing) {
    print substr($0, 1, trailing - 1) "///<" escaped(text)
    next
  }
  trailing = 0
  if (text ~ /^ ---+ .* ---+$/) { flush_block(""); begin_group(text); next }
  lines[++block] = text
  next
}

{
  flush_block($0)
  # Specialisations, such as how fmt prints a shape, are no reading matter.
  if ($0 ~ /^template <>/) { print "/// \\cond"; hidden = 1 }
  if ($0 ~ /^} +\/\/ namespace/) end_group()
  if ($0 ~ /^namespace/) began = 1
  was_inside = bodies > 0 || statement ~ /\(/
  code = code_of($0)
  if (code !~ /^[ \t]*#/) follow(code)
  ends_member = bodies == 0 && statement !~ /\(/ && code !~ /^ *}|{ *$|^ *#/
  trailing = comment && !was_inside && ends_member ? comment : 0
  if (trailing) print substr($0, 1, comment - 1) "///<" escaped(substr($0, comment + 2))
  else print
  if (hidden && $0 ~ /^}/) { print "/// \\endcond"; hidden = 0 }
}

END { flush_block("}") }
