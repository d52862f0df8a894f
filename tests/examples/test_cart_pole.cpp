#include "tapegrad/examples/cart_pole.h"
#include "tapegrad/tests/catch.h"

// By hand: a push of 10 N on 1.1 kg turns a pole at rest by −(10/1.1)/(0.5·(4/3 − 0.1/1.1)) rad/s².
TEST_CASE("the cart of the example moves by its equations", "[examples]") {
  tapegrad::Rng rng(1);
  CartPole game(rng);
  for (const double value : game.state) CHECK((value >= -0.05 && value < 0.05));
  game.state = {0, 0, 0, 0};
  CHECK_FALSE(game.step(1));
  CHECK(game.state[0] == 0);
  CHECK(std::abs(game.state[1] - 0.195121951219512) < 1e-12);
  CHECK(game.state[2] == 0);
  CHECK(std::abs(game.state[3] + 0.292682926829268) < 1e-12);
  CHECK_FALSE(game.step(0));
  CHECK(std::abs(game.state[0] - 0.02 * 0.195121951219512) < 1e-12);
  game.state = {2.3999, 1, 0, 0};
  CHECK(game.step(1));  // leaves the track
  game.state = {0, 0, 0.2094, 1};
  CHECK(game.step(1));  // more than 12°
}
