// The audit tests: what a decoder must do with positions, measured on the decoder itself.
//
// One call, one record: the positional methods in use, and for each test a residual, its tolerance and a verdict.
//
//   move-content      the same content at other positions: equal logits where every method is relative, others
//                     where one is not: door 1, attention temperature, a term whose weights a move changes
//                     (ScoreTerm::moves_weights). The residual then says how much location counts; nothing is wrong
//   cached-vs-full    prefill in chunks and token by token against the full forward, at matched positions
//   after-eviction    cached rows evicted from the middle, then more tokens, against the full forward in which
//                     those later tokens do not see the evicted ones
//   padding           rows of unequal length, padded left and right and then continued in a cache, against each
//                     row alone: padding does not influence
//   padded-tokens     logits at padded tokens while all other content changes: padding does not receive
//   packed-documents  two documents in one row against each alone
//   causal            a later token is changed: nothing before it changes
//
// Residual: the largest |a - b| of the compared logits, over the largest |b|. Where a test compares a computation
// with itself the tolerance is 0 (padded-tokens, causal); elsewhere it is `tolerance`, for sums in another order.
//
// Faults: each of the classic ones can be turned on, on purpose, and must make its test fail; if it does not, the
// decoder's methods do not read positions there (say, no method at all), and the record shows that too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "locant/decoder/decoder.hpp"

namespace locant {

enum class PositionFault {
  kNone,
  kOffsetRestarted,            // cached-vs-full: every step after the first starts at position 0
  kOffByOne,                   // cached-vs-full: every step after the first stands one further
  kUpperLayersAhead,           // cached-vs-full: layers above 0 stand where the step's tokens end
  kRowsTakenForPositions,      // after-eviction: the next position is the number of rows left
  kPaddingCounted,             // padding: a token's position is its column, and decoding goes on at the last column
  kResetWithoutDocumentMask,   // packed-documents: positions restart, but the documents see each other
};
const char* to_string(PositionFault fault) noexcept;

struct AuditOptions {
  std::int32_t length = 24;   // tokens of the longest content; 8 to 4096
  std::int32_t move = 37;     // by how many positions content is moved; 1 or more
  std::uint64_t seed = 1;     // of the contents, random ids of the vocabulary
  double tolerance = 1e-4;    // of residuals
  PositionFault fault = PositionFault::kNone;
};

enum class Expectation { kEqual, kDifferent };
enum class Verdict { kPass, kFail, kNotApplicable };

struct AuditLine {
  std::string test;   // as in the list above
  std::string claim;  // in words, with its numbers
  double residual = 0, tolerance = 0;
  Expectation expectation = Expectation::kEqual;
  Verdict verdict = Verdict::kPass;
  std::string note;   // why not applicable; where the largest residual lies
};

struct AuditReport {
  std::vector<MethodInLayers> methods;
  PositionFault fault = PositionFault::kNone;
  std::vector<AuditLine> lines;
  bool passed() const noexcept;  // no line failed
};

// Errors: kArgument for options out of range or a vocabulary below 2; those of Decoder::forward (kTableEnd where
// length + 8 positions pass a learned table; a move past its end makes move-content not applicable instead).
AuditReport run_audit_tests(Decoder& decoder, const AuditOptions& options = {});

// The record as a table of text, one line a test, for people.
std::string to_text(const AuditReport& report);

}  // namespace locant
