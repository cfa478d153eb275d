// The audit tests: they pass on every method, and every classic fault fails the test that is there for it.
#include <doctest/doctest.h>

#include "decoder_models.hpp"
#include "locant/decoder/audit_tests.hpp"

using namespace locant;
using namespace locant::test;

namespace {

const AuditLine& line(const AuditReport& report, const std::string& test) {
  for (const AuditLine& l : report.lines) {
    if (l.test == test) return l;
  }
  FAIL("no such line");
  return report.lines.front();
}

struct Case {
  PositionFault fault;
  const char* test;
};
const Case kCases[] = {
    {PositionFault::kOffsetRestarted, "cached-vs-full"},
    {PositionFault::kOffByOne, "cached-vs-full"},
    {PositionFault::kUpperLayersAhead, "cached-vs-full"},
    {PositionFault::kRowsTakenForPositions, "after-eviction"},
    {PositionFault::kPaddingCounted, "padding"},
    {PositionFault::kResetWithoutDocumentMask, "packed-documents"},
};

}  // namespace

TEST_CASE("audit tests: every method passes all of them, with residuals of float32 rounding") {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const AuditReport report = run_audit_tests(decoder);
    INFO(to_text(report));
    CHECK(report.passed());
    REQUIRE(report.lines.size() == 7);
    CHECK(report.methods.size() == describe_methods(m.config).size());
    for (const AuditLine& l : report.lines) {
      CHECK(l.verdict == Verdict::kPass);
      if (l.expectation == Expectation::kEqual) CHECK(l.residual < 2e-5);
      if (l.expectation == Expectation::kDifferent) CHECK(l.residual > 1e-3);
    }
    const bool absolute = !std::holds_alternative<std::monostate>(m.config.input_position) || m.config.layers[2].temperature;
    CHECK((line(report, "move-content").expectation == Expectation::kDifferent) == absolute);
  }
}

TEST_CASE("audit tests: every classic fault fails its own test and no other (A01, A04, A07, A13, A24, B01)") {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    for (const Case& c : kCases) {
      AuditOptions options;
      options.fault = c.fault;
      const AuditReport report = run_audit_tests(decoder, options);
      INFO(to_text(report));
      // Layers above 0 have nothing to be ahead of where position enters at the input alone.
      const bool input_only = c.fault == PositionFault::kUpperLayersAhead &&
                              std::all_of(m.config.layers.begin() + 1, m.config.layers.end(), [](const LayerConfig& l) {
                                return !l.rotation && l.score_terms.empty() && !l.temperature;
                              });
      for (const AuditLine& l : report.lines) {
        if (l.test == c.test && !input_only) {
          CHECK(l.verdict == Verdict::kFail);
          CHECK(l.residual > 10 * l.tolerance);
          CHECK(l.note.find("largest at") != std::string::npos);
        } else {
          CHECK(l.verdict == Verdict::kPass);
        }
      }
      CHECK(report.passed() == input_only);
    }
  }
}

TEST_CASE("audit tests: a decoder without positions passes, and no position fault shows but the missing document mask") {
  Decoder decoder = make(small_config());
  for (const Case& c : kCases) {
    AuditOptions options;
    options.fault = c.fault;
    CHECK(run_audit_tests(decoder, options).passed() == (c.fault != PositionFault::kResetWithoutDocumentMask));
  }
  CHECK(run_audit_tests(decoder).methods.empty());
}

TEST_CASE("audit tests: a table too short for the move is said, not failed; too short for the content is an error") {
  DecoderConfig config = small_config();
  config.input_position = learned(40, config.width);
  Decoder decoder = make(config);
  const AuditReport report = run_audit_tests(decoder);
  CHECK(line(report, "move-content").verdict == Verdict::kNotApplicable);
  CHECK(line(report, "move-content").note.find("ends at 40") != std::string::npos);
  CHECK(report.passed());
  AuditOptions options;
  options.length = 64;
  check_error(ErrorCode::kTableEnd, "", [&] { run_audit_tests(decoder, options); });
}

TEST_CASE("audit tests: options out of range are refused; the text names tests, residuals and verdicts") {
  Decoder decoder = make(models()[0].config);
  AuditOptions options;
  options.length = 7;
  check_error(ErrorCode::kArgument, "run_audit_tests: length is 7, expected 8 to 4096", [&] { run_audit_tests(decoder, options); });
  options = {};
  options.move = 0;
  check_error(ErrorCode::kArgument, "move is 0", [&] { run_audit_tests(decoder, options); });
  options = {};
  options.tolerance = -1;
  check_error(ErrorCode::kArgument, "tolerance is -1", [&] { run_audit_tests(decoder, options); });
  options = {};
  options.fault = PositionFault::kOffByOne;
  const std::string text = to_text(run_audit_tests(decoder, options));
  for (const char* part : {"fault   off-by-one", "cached-vs-full", "FAIL", "packed-documents", "layers 0 1 2"}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
}
