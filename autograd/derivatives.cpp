#include "tapegrad/autograd/derivatives.h"

#include <string_view>
#include <utility>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

using ManyFunction = std::function<std::vector<Tensor>(Inputs)>;

// The arguments as tensors of their own, so that f's are told from the same tensors elsewhere.
std::vector<Tensor> fresh(std::string_view name, const std::vector<Tensor>& xs) {
  std::vector<Tensor> result;
  for (const Tensor& x : xs) {
    check(is_float(x.dtype()), "[{}] an argument of {} has no derivative", name,
          name_of(x.dtype()));
    result.push_back(x.view(x.shape()));
  }
  return result;
}

void watch_all(Tape& tape, const std::vector<Tensor>& xs) {
  for (const Tensor& x : xs) tape.watch(x);
}

void check_like(std::string_view name, const Tensor& v, const Tensor& x) {
  check(v.shape() == x.shape() && v.dtype() == x.dtype(), "[{}] v is {} {}, but must be {} {}",
        name, v.shape(), name_of(v.dtype()), x.shape(), name_of(x.dtype()));
}

void check_alike(std::string_view name, const std::vector<Tensor>& vs,
                 const std::vector<Tensor>& xs) {
  check(vs.size() == xs.size(), "[{}] {} tensors v for {} arguments", name, vs.size(), xs.size());
  for (std::size_t i = 0; i < vs.size(); ++i) check_like(name, vs[i], xs[i]);
}

// Tape::gradient with zeros in place of gradients that do not exist.
Grads gradients(Tape& tape, const std::vector<Tensor>& roots, const std::vector<Tensor>& xs,
                const std::vector<Tensor>& seeds, bool keep = false) {
  std::vector<Tensor> tracked, tracked_seeds;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (!tape.tracks(roots[i])) continue;
    tracked.push_back(roots[i]);
    tracked_seeds.push_back(seeds[i]);
  }
  Grads result(xs.size());
  if (!tracked.empty()) {
    result = tape.gradient(tracked, xs, {.seeds = std::move(tracked_seeds), .keep = keep});
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!result[i].defined()) result[i] = Tensor::zeros(xs[i].shape(), xs[i].dtype());
  }
  return result;
}

// A tensor like y that is 1 at one element and 0 elsewhere.
Tensor one_at(const Tensor& y, std::int64_t element) {
  Tensor seed = Tensor::zeros(y.shape(), y.dtype());
  dispatch(y.dtype(), [&](auto zero) { seed.mutable_data<decltype(zero)>()[element] = 1; });
  return seed;
}

// rows[i], gradients by x, as one tensor: y's shape, then x's.
Tensor joined(const std::vector<Tensor>& rows, const Tensor& y, const Tensor& x) {
  Shape shape = y.shape();
  for (int i = 0; i < x.rank(); ++i) shape.push_back(x.dim(i));
  return rows.empty() ? Tensor::zeros(shape, x.dtype()) : reshape(stack(rows), shape);
}

// Element [k][i]: the Jacobian of result k of f by argument i.
std::vector<Grads> jacobians(std::string_view name, const ManyFunction& f,
                             const std::vector<Tensor>& given) {
  const std::vector<Tensor> xs = fresh(name, given);
  Tape tape;
  watch_all(tape, xs);
  const std::vector<Tensor> ys = f(xs);
  std::vector<Grads> result;
  for (const Tensor& y : ys) {
    check(is_float(y.dtype()), "[{}] a result of {} has no derivative", name, name_of(y.dtype()));
    std::vector<std::vector<Tensor>> rows(xs.size());
    for (std::int64_t e = 0; e < y.numel(); ++e) {
      Grads row = gradients(tape, {y}, xs, {one_at(y, e)}, true);
      for (std::size_t i = 0; i < xs.size(); ++i) rows[i].push_back(std::move(row[i]));
    }
    Grads of_y;
    for (std::size_t i = 0; i < xs.size(); ++i) of_y.push_back(joined(rows[i], y, xs[i]));
    result.push_back(std::move(of_y));
  }
  return result;
}

// f(x) and its gradients. They are recorded by the tapes that are live.
ValueAndProducts value_and_gradients(std::string_view name, const TensorsFunction& f, Inputs at) {
  const std::vector<Tensor> xs = fresh(name, {at.begin(), at.end()});
  Tape tape;
  watch_all(tape, xs);
  const Tensor y = f(xs);
  check(y.numel() == 1, "[{}] f must return one number, not a tensor of {}", name, y.shape());
  return {y, gradients(tape, {y}, xs, {Tensor::ones(y.shape(), y.dtype())})};
}

TensorsFunction of_one(const TensorFunction& f) {
  return [&f](Inputs xs) { return f(xs[0]); };
}

}  // namespace

Grads jacobian(const TensorsFunction& f, const std::vector<Tensor>& xs) {
  return jacobians(
      "jacobian", [&](Inputs at) { return std::vector{f(at)}; }, xs)[0];
}

std::vector<Grads> hessian(const TensorsFunction& f, const std::vector<Tensor>& xs) {
  const auto gradient = [&](Inputs at) { return value_and_gradients("hessian", f, at).products; };
  return jacobians("hessian", gradient, xs);
}

ValueAndProducts vjp(const TensorsFunction& f, const std::vector<Tensor>& given, const Tensor& v) {
  const std::vector<Tensor> xs = fresh("vjp", given);
  Tape tape;
  watch_all(tape, xs);
  const Tensor y = f(xs);
  check(v.defined() || y.numel() == 1,
        "[vjp] f returns a tensor of {}, so that v must be given: only one element can do without",
        y.shape());
  if (v.defined()) check_like("vjp", v, y);
  const Tensor seed = v.defined() ? v : Tensor::ones(y.shape(), y.dtype());
  return {y, gradients(tape, {y}, xs, {seed})};
}

ValueAndProduct jvp(const TensorsFunction& f, const std::vector<Tensor>& given,
                    const std::vector<Tensor>& vs) {
  const std::vector<Tensor> xs = fresh("jvp", given);
  check_alike("jvp", vs, xs);
  Tape outer;
  Tensor y, u;
  Grads products;
  {
    Tape inner;
    watch_all(inner, xs);
    y = f(xs);
    // Where vjp is differentiated does not matter: it is linear in u.
    u = Tensor::zeros(y.shape(), y.dtype());
    outer.watch(u);
    products = gradients(inner, {y}, xs, {u});
  }
  return {y, gradients(outer, products, {u}, vs)[0]};
}

ValueAndProducts hvp(const TensorsFunction& f, const std::vector<Tensor>& given,
                     const std::vector<Tensor>& vs) {
  const std::vector<Tensor> xs = fresh("hvp", given);
  check_alike("hvp", vs, xs);
  Tape tape;
  watch_all(tape, xs);
  ValueAndProducts first = value_and_gradients("hvp", f, xs);
  // The Hessian is symmetric: vᵀ·H is H·v.
  return {std::move(first.value), gradients(tape, first.products, xs, vs)};
}

Tensor jacobian(const TensorFunction& f, const Tensor& x) {
  return jacobian(of_one(f), std::vector{x})[0];
}

Tensor hessian(const TensorFunction& f, const Tensor& x) {
  return hessian(of_one(f), std::vector{x})[0][0];
}

ValueAndProduct vjp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  const ValueAndProducts result = vjp(of_one(f), std::vector{x}, v);
  return {result.value, result.products[0]};
}

ValueAndProduct jvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  return jvp(of_one(f), std::vector{x}, std::vector{v});
}

ValueAndProduct hvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  const ValueAndProducts result = hvp(of_one(f), std::vector{x}, std::vector{v});
  return {result.value, result.products[0]};
}

Grads per_example_gradients(const std::function<Tensor(std::int64_t)>& loss, std::int64_t n,
                            const std::vector<Tensor>& wrt) {
  check(n > 0, "[per_example_gradients] there are {} examples", n);
  std::vector<std::vector<Tensor>> rows(wrt.size());
  for (std::int64_t i = 0; i < n; ++i) {
    Tape tape;
    watch_all(tape, wrt);
    const Tensor y = loss(i);
    check(y.numel() == 1, "[per_example_gradients] a loss must be one number, not a tensor of {}",
          y.shape());
    Grads row = gradients(tape, {y}, wrt, {Tensor::ones(y.shape(), y.dtype())});
    for (std::size_t k = 0; k < wrt.size(); ++k) rows[k].push_back(std::move(row[k]));
  }
  Grads result;
  for (const std::vector<Tensor>& of_tensor : rows) result.push_back(stack(of_tensor));
  return result;
}

}  // namespace tapegrad
