#include <array>
#include <iostream>
#include <locant/position/positions.hpp>

int main() {
  const auto prompt = locant::Positions::range(4);
  const auto next = prompt.next(std::array{1});
  std::cout << "the next token stands at " << next.position()[0] << '\n';
}
