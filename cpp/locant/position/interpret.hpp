// Interpretation: given the position_ids, padding masks, cu_seqlens and segment ids that another system would use, what
// do they mean, and where do they contradict each other?
//
// The inverse of the builders. Positions faults keep every shape valid and raise no error, so what is handed in
// is taken as evidence, not as truth: this reports, it never repairs. Each finding has a code, a place, the numbers
// found and expected, and a sentence; its grade says how much it proves:
//
//   contradiction   two parts of the evidence cannot both hold, or a number that nothing can mean (negative)
//   ambiguity       the evidence reads in two ways that give different masks or positions; both are named
//   note            unusual, and right in some model (documents without a restart, a row that starts at 5, ...)
//
// Position ids alone are weak evidence of packing. "A new document wherever the number is not the one before + 1", as
// running code has it, takes padding zeros and image tokens for documents; "wherever it falls" merges a one-token
// document with the next (0 0). The reading here: a token whose position is 0 on every axis begins a document,
// unless the padding mask says that it is padding; so does a fall back to the row's first number. Equal numbers at the
// start or end of a row that has no mask may be padding all the same, and documents that nothing but a restart
// separates may not be kept apart by whoever makes the mask: both are ambiguities. cu_seqlens and segment ids are
// stronger than any of this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "locant/position/positions.hpp"

namespace locant {

// All but position_ids may be empty. Flat arrays, row after row.
struct PositionEvidence {
  // 1 dimension: [columns]; 2: [rows, columns]; 3: [axes, rows, columns].
  std::vector<std::int64_t> shape;
  std::span<const std::int32_t> position_ids;
  std::span<const std::uint8_t> padding_mask;  // [rows, columns], non-zero = valid
  std::span<const std::int32_t> cu_seqlens;    // documents over the valid tokens of all rows, one after another
  std::span<const std::int32_t> segment_ids;   // [rows, columns]
  std::span<const std::int32_t> cached;        // [rows]: tokens that a cache already holds of each row
};

enum class Grade { kNote, kAmbiguity, kContradiction };

enum class FindingCode {
  // contradictions
  kNegativePosition,        // a position below 0
  kPaddingCounted,          // the positions of valid tokens count padding before or between them
  kRestartWithoutBoundary,  // positions start again inside what cu_seqlens or segment ids call one document
  kSegmentsDisagree,        // cu_seqlens and segment ids part the tokens differently, or a document spans two rows
  kSegmentReturns,          // a segment id comes back after another one
  kCuSeqlensMalformed,      // does not begin with 0, falls, or does not end with the number of valid tokens
  kBeforeCachedEnd,         // a row starts below the number of tokens its cache holds: positions would repeat
  kFallsBack,               // a fall to a number that neither 0 nor a document's start explains
  // ambiguities
  kPaddingOrDocuments,  // equal numbers at a row's start or zeros at its end, and no mask to say what they are
  kOnlyRestarts,        // positions start again, and nothing else says that documents are apart
  kRestartAtOffset,     // positions fall back to the row's first number, which is not 0: documents behind a prefix
  kAfterCachedEnd,      // a row starts above the number of cached tokens: evicted rows, or counted padding
  kReadersDisagree,     // two published readers of packing cut the row differently; see RowReading
  kConstantPositions,   // every token of a row has the same position: one image row, or a stuck counter
  // notes
  kHoleInMask,              // padding between valid tokens
  kSharedPositions,         // neighbours have the same position, as image tokens do (told for one axis only)
  kGap,                     // a jump forward, as after evicted tokens (told for one axis only)
  kStartsLate,              // a row that starts above 0, with no cache given
  kBoundaryWithoutRestart,  // a document begins and positions run on, as in training for long contexts
  kAxesEqual,               // several axes, the same on all of them everywhere: text, or images laid out flat
};

const char* to_string(FindingCode code) noexcept;
const char* to_string(Grade grade) noexcept;

struct Finding {
  FindingCode code{};
  Grade grade{};
  std::int32_t row = 0;     // -1: of the whole
  std::int64_t column = 0;  // the first token concerned; -1: of the whole row
  std::int32_t axis = 0;
  std::int64_t found = 0, expected = 0;  // the numbers of the sentence; equal where it names none
  std::string sentence;
};

// What one row says of itself.
struct RowReading {
  std::int64_t valid_tokens = 0;
  std::int64_t left_padding = 0, right_padding = 0;  // by the mask; 0 without one
  std::optional<std::int32_t> first_position;        // of the first valid token, axis 0
  std::int64_t next_position = 0;                    // largest + 1 over all axes: where decoding goes on
  // Columns where documents begin, by the strongest evidence there is.
  std::vector<std::int64_t> documents;
  // The same as two published readers have it from axis 0 alone (Hugging Face's mask path, and its variable-length
  // path): wherever the number is not the one before + 1; wherever it is the row's smallest, unless the row just
  // counts. The second may begin after the row does: the tokens before it are then lost.
  std::vector<std::int64_t> by_difference, by_minimum;
};

struct Interpretation {
  std::int32_t axes = 0, rows = 0;
  std::int64_t columns = 0;
  std::vector<RowReading> row;
  std::vector<Finding> findings;  // by row, then column
  // What all of it says together; nothing where there is a contradiction.
  std::optional<Positions> positions;

  bool contradicts() const noexcept { return !positions.has_value(); }
};

// Errors: kArgument for a shape that is not of 1 to 3 dimensions; kShape where an array does not fit the shape.
// Contradictory numbers are findings, never errors.
Interpretation interpret(const PositionEvidence& evidence);

}  // namespace locant
