#include "vectors.hpp"

#include <fstream>

namespace locant::test {

Json load_vectors(const std::string& name) {
  const std::string path = std::string(LOCANT_VECTORS_DIR) + "/" + name + ".json";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), "cannot read ", path);
  return Json::parse(file);
}

}  // namespace locant::test
