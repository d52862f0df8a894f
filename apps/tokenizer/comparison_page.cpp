#include <algorithm>

#include "tapegrad/apps/tokenizer/tokenized_text.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/markup.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::embedded {
std::string_view report_style();
}

namespace tapegrad::tokenizers {
namespace {

// Neighbours differ: the colour is that of the token's place.
constexpr int kColours = 6;
constexpr std::string_view kStyle =
    R"(.texts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 0 24px; }
section { min-width: 0; }
.tokens { overflow-wrap: anywhere; line-height: 1.75; }
.tokens span { border-radius: 3px; padding: 1px 0; unicode-bidi: isolate; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.tokens span:hover { outline: 2px solid var(--fg); }
.tokens i { font-size: 0.8em; font-style: normal; opacity: 0.75; }
.bar { display: block; height: 12px; min-width: 1px; border-radius: 2px; background: var(--curve-0); }
td.wide { width: 260px; vertical-align: middle; }
)";

// Names and errors of files may be any bytes.
std::string markup(std::string text) {
  while (const auto invalid = find_invalid_utf8(text)) text[*invalid] = '?';
  std::string plain;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Char c = first_char(rest);
    plain += controls_terminal(c.code_point) ? "?" : std::string(rest.substr(0, c.size));
    rest.remove_prefix(c.size);
  }
  return escaped_markup(plain);
}

std::string mark(const std::string& text) { return "<i>" + text + "</i>"; }

// A token's bytes: what cannot be seen, or is a part of a character, in small capitals.
std::string token_markup(std::string_view bytes) {
  std::string html;
  while (!bytes.empty()) {
    const Utf8Char c = first_char(bytes);
    const std::string_view text = bytes.substr(0, c.size);
    if (c.kind != Utf8Char::Kind::valid) {
      for (const char byte : text) {
        html += mark(fmt::format("{:02X}", static_cast<unsigned char>(byte)));
      }
    } else if (c.code_point == U'\n') {
      html += mark("↵") + "\n";
    } else if (c.code_point == U'\t') {
      html += mark("⇥") + "\t";
    } else if (controls_terminal(c.code_point)) {
      html += mark(fmt::format("U+{:04X}", static_cast<std::uint32_t>(c.code_point)));
    } else {
      html += escaped_markup(text);
    }
    bytes.remove_prefix(c.size);
  }
  return html;
}

std::string tokens_markup(const TokenizedText& t, const data::Tokenizer& tokenizer) {
  std::string html = "<pre class=\"tokens\">";
  std::size_t shown = 0, bytes = 0;
  for (; shown < t.tokens.size() && bytes < kMostPageBytes; ++shown) {
    const std::string token = tokenizer.token_bytes(t.tokens[shown]);
    bytes += std::max<std::size_t>(token.size(), 1);
    html += fmt::format("<span class=\"t{}\" title=\"{}:{}\">{}</span>",
                        shown % static_cast<std::size_t>(kColours), t.tokens[shown],
                        hex_bytes(token, 32), token_markup(token));
  }
  html += "</pre>\n";
  if (shown == t.tokens.size()) return html;
  return html + fmt::format("<p class=\"note\">The first {} of {}.</p>\n",
                            grouped(static_cast<std::int64_t>(shown)),
                            counted(std::ssize(t.tokens), "token"));
}

std::string row_markup(const TokenizedText& t, double most) {
  std::string html =
      fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"number\">{}</td>",
                  markup(t.name), markup(t.method), grouped(t.vocab_size));
  if (t.error) return html + fmt::format("<td colspan=\"6\">{}</td></tr>\n", markup(*t.error));
  return html + fmt::format(
                    "<td class=\"number\">{}</td><td class=\"number\">{:.3f}</td>"
                    "<td class=\"wide\"><span class=\"bar\" style=\"width: {:.1f}%\"></span></td>"
                    "<td class=\"number\">{:.4f}</td><td class=\"number\">{:.1f}</td><td>{}</td>"
                    "</tr>\n",
                    grouped(std::ssize(t.tokens)), t.bytes_per_token,
                    most > 0 ? 100 * t.bytes_per_token / most : 0, t.tokens_per_byte(),
                    t.bytes_per_second / 1e6, t.comes_back ? "yes" : "no");
}

std::string colours() {
  std::string css;
  for (int i = 0; i < kColours; ++i) {
    css += fmt::format(
        ".t{0} {{ background: color-mix(in srgb, var(--curve-{0}) 26%, transparent); }}\n", i);
  }
  return css;
}

}  // namespace

std::string comparison_page(const ComparedText& compared) {
  const std::string title = compared.texts.size() == 1
                                ? "A text by a tokenizer"
                                : fmt::format("A text by {} tokenizers", compared.texts.size());
  double most = 0;
  for (const TokenizedText& t : compared.texts) most = std::max(most, t.bytes_per_token);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>{0}</title>\n<style>\n{1}{2}{3}</style>\n</head>\n<body>\n"
      "<main>\n<h1>{0}</h1>\n<p class=\"note\">{4}, {5}</p>\n"
      "<div class=\"scroll short\" tabindex=\"0\"><table>\n<tr><th>tokenizer</th><th>method</th>"
      "<th>vocabulary</th><th>tokens</th><th colspan=\"2\">bytes per token</th>"
      "<th>tokens per byte</th><th>MB/s</th><th>comes back</th></tr>\n",
      title, embedded::report_style(), kStyle, colours(), markup(compared.name),
      counted(std::ssize(compared.text), "byte"));
  for (const TokenizedText& t : compared.texts) html += row_markup(t, most);
  html += "</table></div>\n<div class=\"texts\">\n";
  for (std::size_t i = 0; i < compared.texts.size(); ++i) {
    const TokenizedText& t = compared.texts[i];
    if (t.error) continue;
    html += fmt::format("<section><h2>{}</h2>\n{}</section>\n", markup(t.name),
                        tokens_markup(t, compared.tokenizers[i]));
  }
  return html +
         "</div>\n</main>\n<footer>Made by tapegrad. Hover over a token to read its id and its "
         "bytes; parts "
         "of characters are shown as bytes. This file needs no network.</footer>\n</body>\n"
         "</html>\n";
}

}  // namespace tapegrad::tokenizers
