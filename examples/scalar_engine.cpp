// Reverse-mode differentiation of scalars in one file, without tapegrad (docs/how-a-step-works.md).

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

struct Node {
  double data, grad = 0;
  std::vector<std::shared_ptr<Node>> parents = {};
  std::function<void(const Node&)> backward = {};  // adds to the parents' grad
};
using Value = std::shared_ptr<Node>;

Value make(Node node) { return std::make_shared<Node>(std::move(node)); }
Value value(double data) { return make({data}); }

Value operator+(const Value& a, const Value& b) {
  const auto backward = [=](const Node& out) {
    a->grad += out.grad;
    b->grad += out.grad;
  };
  return make({a->data + b->data, 0, {a, b}, backward});
}

Value operator*(const Value& a, const Value& b) {
  const auto backward = [=](const Node& out) {
    a->grad += b->data * out.grad;
    b->grad += a->data * out.grad;
  };
  return make({a->data * b->data, 0, {a, b}, backward});
}

Value tanh(const Value& a) {
  const auto backward = [=](const Node& out) { a->grad += (1 - out.data * out.data) * out.grad; };
  return make({std::tanh(a->data), 0, {a}, backward});
}

// Parents before children.
void sort(const Value& v, std::set<Value>& seen, std::vector<Value>& order) {
  if (!seen.insert(v).second) return;
  for (const Value& parent : v->parents) sort(parent, seen, order);
  order.push_back(v);
}

void backward(const Value& root) {
  std::set<Value> seen;
  std::vector<Value> order;
  sort(root, seen, order);
  root->grad = 1;
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    if ((*v)->backward) (*v)->backward(**v);
  }
}

int main() {
  const Value w = value(-0.5), b = value(0.1);
  for (int step = 0; step <= 40; ++step) {  // one neuron learns to say 0.8 to 2
    const Value error = tanh(w * value(2) + b) + value(-0.8), loss = error * error;
    w->grad = b->grad = 0;
    backward(loss);
    if (step % 20 == 0) std::printf("%2d: loss %.6f, dw %.6f\n", step, loss->data, w->grad);
    w->data -= 0.1 * w->grad;
    b->data -= 0.1 * b->grad;
  }
}
