#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// A dimension's name: a letter, or a number below 0 for a dimension that "..." stands for: -1 is
// the last of these.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string name_of(Label label) {
  return label < 0 ? "..." : std::string(1, static_cast<char>(label));
}

// The part of the equation that stands for a tensor: letters, and the place of "..." among them, if
// it is there.
struct Subscript {
  std::string letters;
  std::optional<std::size_t> ellipsis;
};

Subscript parse_subscript(std::string_view text, std::string_view equation) {
  Subscript result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      check(text.substr(i, 3) == "...", "[einsum] a dot outside of \"...\" in \"{}\"", equation);
      check(!result.ellipsis, "[einsum] \"...\" stands twice in \"{}\" of \"{}\"", text, equation);
      result.ellipsis = result.letters.size();
      i += 2;
      continue;
    }
    check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'),
          "[einsum] dimensions are named by letters, not by '{}' in \"{}\"", c, equation);
    result.letters += c;
  }
  return result;
}

struct Equation {
  std::vector<Subscript> inputs;
  std::optional<Subscript> output;
};

Equation parse(std::string_view text) {
  Equation result;
  const std::size_t arrow = text.find("->");
  std::string_view rest = text.substr(0, arrow);
  while (true) {
    const std::size_t comma = rest.find(',');
    result.inputs.push_back(parse_subscript(rest.substr(0, comma), text));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (arrow != std::string_view::npos)
    result.output = parse_subscript(text.substr(arrow + 2), text);
  return result;
}

Labels labels_of(const Subscript& subscript, int ellipsis_rank) {
  Labels labels(subscript.letters.begin(), subscript.letters.end());
  if (!subscript.ellipsis) return labels;
  Labels hidden;
  for (int i = ellipsis_rank; i > 0; --i) hidden.push_back(-i);
  labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(*subscript.ellipsis), hidden.begin(),
                hidden.end());
  return labels;
}

// A tensor whose dimensions have names, all different.
struct Term {
  Tensor t;
  Labels labels;

  int place(Label label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  std::int64_t size(Label label) const { return t.dim(place(label)); }
  // Sums over a dimension, and forgets it.
  void sum_out(const Labels& gone) {
    if (gone.empty()) return;
    std::vector<int> dims;
    for (const Label label : gone) dims.push_back(place(label));
    t = sum(t, dims);
    std::erase_if(labels, [&](Label label) { return contains(gone, label); });
  }
  void arrange(const Labels& wanted) {
    if (wanted == labels) return;
    std::vector<int> order;
    for (const Label label : wanted) order.push_back(place(label));
    t = permute(t, order);
    labels = wanted;
  }
};

// The elements of x where the indices of dimensions p < q are equal; in dimension p.
Tensor diagonal(const Tensor& x, int p, int q) {
  std::vector<int> order = {p, q};
  Shape rest{x.dim(p) * x.dim(q)};
  for (int i = 0; i < x.rank(); ++i) {
    if (i == p || i == q) continue;
    order.push_back(i);
    rest.push_back(x.dim(i));
  }
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < x.dim(p); ++i) {
    ids.push_back(static_cast<std::int32_t>(i * (x.dim(p) + 1)));
  }
  check(rest[0] <= std::int64_t{1} << 31, "[einsum] {} is too large for a diagonal", x.shape());
  const Tensor rows = gather_rows(reshape(permute(x, order), rest),
                                  Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}));
  std::vector<int> back(static_cast<std::size_t>(rows.rank()));
  for (int i = 0; i < rows.rank(); ++i) {
    back[static_cast<std::size_t>(i)] = i == p ? 0 : i < p ? i + 1 : i;
  }
  return permute(rows, back);
}

Term term_of(const Tensor& x, const Labels& labels, std::size_t operand) {
  Term term{x, {}};
  for (const Label label : labels) {
    if (!contains(term.labels, label)) {
      term.labels.push_back(label);
      continue;
    }
    const int first = term.place(label), second = static_cast<int>(term.labels.size());
    check(term.t.dim(first) == term.t.dim(second),
          "[einsum] '{}' stands twice for operand {}, for sizes {} and {}", name_of(label), operand,
          term.t.dim(first), term.t.dim(second));
    term.t = diagonal(term.t, first, second);
  }
  return term;
}

std::int64_t product_of(const Term& term, const Labels& labels) {
  std::int64_t product = 1;
  for (const Label label : labels) product *= term.size(label);
  return product;
}

Labels joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels result = a;
  result.insert(result.end(), b.begin(), b.end());
  result.insert(result.end(), c.begin(), c.end());
  return result;
}

// The term as matrices (batch, rows, columns), and whether they are transposed: the term is not
// copied if it lies that way.
std::pair<Tensor, bool> as_matrices(Term term, const Labels& batch, const Labels& rows,
                                    const Labels& columns) {
  const bool transposed = term.labels == joined(batch, columns, rows);
  if (!transposed) term.arrange(joined(batch, rows, columns));
  const std::int64_t m = product_of(term, rows), n = product_of(term, columns);
  const Shape matrix = transposed ? Shape{n, m} : Shape{m, n};
  return {reshape(term.t, batch.empty() ? matrix : matrix.inserted(0, product_of(term, batch))),
          transposed};
}

// The product of two terms, summed over the dimensions that are not in `wanted`.
Term product(Term a, Term b, const Labels& wanted) {
  const auto lonely = [&](const Term& one, const Term& other) {
    Labels gone;
    for (const Label label : one.labels) {
      if (!contains(wanted, label) && !contains(other.labels, label)) gone.push_back(label);
    }
    return gone;
  };
  a.sum_out(lonely(a, b));
  b.sum_out(lonely(b, a));
  Labels batch, summed, of_a, of_b;
  for (const Label label : a.labels) {
    (!contains(b.labels, label) ? of_a : contains(wanted, label) ? batch : summed).push_back(label);
  }
  for (const Label label : b.labels) {
    if (!contains(a.labels, label)) of_b.push_back(label);
  }
  Shape shape;
  for (const Label label : batch) shape.push_back(a.size(label));
  for (const Label label : of_a) shape.push_back(a.size(label));
  for (const Label label : of_b) shape.push_back(b.size(label));
  const auto [x, x_turned] = as_matrices(a, batch, of_a, summed);
  const auto [y, y_turned] = as_matrices(b, batch, summed, of_b);
  if (summed.empty()) {
    Shape left = batch.empty() ? Shape{} : Shape{product_of(a, batch)}, right = left;
    left.push_back(product_of(a, of_a));
    left.push_back(1);
    right.push_back(1);
    right.push_back(product_of(b, of_b));
    return {reshape(reshape(x, left) * reshape(y, right), shape), joined(batch, of_a, of_b)};
  }
  const Tensor z = matmul(x, y, {.transpose_a = x_turned, .transpose_b = y_turned});
  return {reshape(z, shape), joined(batch, of_a, of_b)};
}

// How many dimensions "..." stands for, of all operands at most.
int ellipsis_rank(const Equation& parsed, const std::vector<Tensor>& operands,
                  std::string_view equation) {
  check(parsed.inputs.size() == operands.size(), "[einsum] \"{}\" names {} operands, not {}",
        equation, parsed.inputs.size(), operands.size());
  int most = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const int named = static_cast<int>(parsed.inputs[i].letters.size()), rank = operands[i].rank();
    check(parsed.inputs[i].ellipsis ? named <= rank : named == rank,
          "[einsum] \"{}\" names {} dimensions of operand {}, which has shape {}", equation, named,
          i, operands[i].shape());
    if (parsed.inputs[i].ellipsis) most = std::max(most, rank - named);
  }
  return most;
}

Labels output_labels(const Equation& parsed, const std::vector<Labels>& inputs, int hidden,
                     std::string_view equation) {
  std::map<Label, int> uses;
  for (const Labels& labels : inputs) {
    for (const Label label : labels) ++uses[label];
  }
  Labels result;
  if (parsed.output) {
    result = labels_of(*parsed.output, hidden);
    for (const Label label : result) {
      check(uses.count(label) == 1,
            "[einsum] '{}' of the output names no dimension of an operand in "
            "\"{}\"",
            name_of(label), equation);
      check(std::count(result.begin(), result.end(), label) == 1,
            "[einsum] '{}' stands twice in the output of \"{}\"", name_of(label), equation);
    }
    return result;
  }
  for (const auto& [label, count] : uses) {
    if (label < 0 || count == 1) result.push_back(label);
  }
  return result;
}

// Takes dimensions of size 1 away that are larger elsewhere. Error if sizes differ otherwise.
void drop_stretched(std::vector<Term>& terms) {
  std::map<Label, std::int64_t> sizes;
  for (const Term& term : terms) {
    for (const Label label : term.labels) {
      const std::int64_t size = term.size(label);
      const auto [it, is_new] = sizes.try_emplace(label, size);
      check(is_new || size == 1 || it->second == 1 || size == it->second,
            "[einsum] '{}' stands for sizes {} and {}", name_of(label), it->second, size);
      if (size != 1) it->second = size;
    }
  }
  for (Term& term : terms) {
    Labels kept;
    Shape shape;
    for (const Label label : term.labels) {
      if (term.size(label) != sizes[label]) continue;
      kept.push_back(label);
      shape.push_back(term.size(label));
    }
    term = {reshape(term.t, shape), kept};
  }
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const Equation parsed = parse(equation);
  const int hidden = ellipsis_rank(parsed, operands, equation);
  std::vector<Term> terms;
  std::vector<Labels> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check(operands[i].dtype() == operands[0].dtype(), "[einsum] dtypes differ: {} and {}",
          name_of(operands[0].dtype()), name_of(operands[i].dtype()));
    const int own = operands[i].rank() - static_cast<int>(parsed.inputs[i].letters.size());
    inputs.push_back(labels_of(parsed.inputs[i], own));
    terms.push_back(term_of(operands[i], inputs.back(), i));
  }
  const Labels output = output_labels(parsed, inputs, hidden, equation);
  drop_stretched(terms);
  Term result = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels wanted = output;
    for (std::size_t k = i + 1; k < terms.size(); ++k) {
      wanted.insert(wanted.end(), terms[k].labels.begin(), terms[k].labels.end());
    }
    result = product(result, terms[i], wanted);
  }
  Labels gone;
  for (const Label label : result.labels) {
    if (!contains(output, label)) gone.push_back(label);
  }
  result.sum_out(gone);
  result.arrange(output);
  return result.t;
}

}  // namespace tapegrad
