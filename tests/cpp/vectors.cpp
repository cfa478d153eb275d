#include "vectors.hpp"

#include <fstream>
#include <iterator>

namespace locant::test {

Json load_vectors(const std::string& name) {
  const std::string path = std::string(LOCANT_VECTORS_DIR) + "/" + name + ".json";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), "cannot read ", path);
  return Json::parse(file);
}

std::vector<std::uint8_t> load_bytes(const std::string& file_name) {
  const std::string path = std::string(LOCANT_VECTORS_DIR) + "/" + file_name;
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), "cannot read ", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace locant::test
