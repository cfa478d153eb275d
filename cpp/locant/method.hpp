// What a positional method says of itself, as data: the audit prints it, the page shows it, tests read it.
#pragma once

#include <string>
#include <vector>

namespace locant {

// Through which door position enters: added to the input, rotating queries and keys, or in the score.
enum class Door { kInput, kRotation, kScore };

// Whether the method tells where a token is, or how two tokens lie to each other.
enum class Reference { kAbsolute, kRelative };

struct MethodParameter {
  std::string name;
  std::string value;  // numbers with enough digits to be read back
};

struct MethodDescription {
  std::string name;        // "sinusoidal, interleaved", "rotary, half-split", "ALiBi, causal", ...
  Door door{};
  Reference reference{};
  std::vector<MethodParameter> parameters;
  std::string formula;     // the frequency formula or the table's shape, in the paper's symbols
  std::string source;      // paper and equation, or the code whose convention this is
  std::string origin;      // what index 0 is: "position 0 is the first token", "row = position + 2", ...
  std::string direction;   // "displacement = key - query", "none" for absolute methods
  std::string past_end;    // what happens past the table, clip, bucket or trained length
};

// The shortest decimal that reads back to the same double ("10000", "0.1", "inf").
std::string number_text(double value);
MethodParameter parameter(std::string name, double value);

}  // namespace locant
