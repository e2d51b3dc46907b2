// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "tests/unit/kernels/ptx/ptx_run.h"

namespace hetpipe::cuda::ptx::test {
namespace parser_test {

const char* const kText = R"(
// a comment
.version 9.0
.target sm_75
.address_size 64
.shared .align 16 .b8 tile[48];
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 250};
/* a longer
   one */
.entry first(
	.param .align 8 .b8 first_param_0[12],
	.param .u64 .ptr .align 1 first_param_1,
	.param .f32 first_param_2
)
.maxntid 8, 4, 2
.minnctapersm 3
{
	.reg .pred 	%p<3>;
	.reg .b64 	%rd<5>, %SP;
	.local .align 4 .b8 	__local_depot0[20];
	.pragma "nounroll";
$L__BB0_1:
	@!%p2 bra 	$L__BB0_1;
	{ .reg .b16 tmp; mov.u16 tmp, -2; }
	ld.param.u64 	%rd1, [first_param_0+-4];
	shfl.sync.bfly.b32 	%rd2|%p1, %rd3, 1, 31, -1;
	ret;
}
.visible .entry second() { ret; }
)";

TEST(PtxParser, WhatNvccWrites) {
  const auto module = parse_module("m.ptx", kText);
  ASSERT_EQ(module->entries.size(), 2u);
  EXPECT_EQ(module->entries[1].name, "second");
  ASSERT_EQ(module->variables.size(), 2u);
  EXPECT_EQ(module->variables[0].space, Space::shared);
  EXPECT_EQ(module->variables[0].bytes, 48u);
  EXPECT_EQ(module->variables[1].initial[4], std::byte{250});
  EXPECT_EQ(module->variables[1].initial[7], std::byte{0});

  const Entry& entry = module->entries[0];
  EXPECT_EQ(entry.max_threads, 64u);
  ASSERT_EQ(entry.parameters.size(), 3u);
  EXPECT_EQ(entry.parameters[0].bytes, 12u);
  EXPECT_EQ(entry.parameters[1].offset, 16u);
  EXPECT_EQ(entry.parameters[2].offset, 24u);
  EXPECT_EQ(entry.parameter_bytes, 28u);
  EXPECT_EQ(entry.registers.at("%rd"), "b64");
  EXPECT_EQ(entry.registers.at("%SP"), "b64");
  EXPECT_EQ(entry.variables[0].bytes, 20u);
  EXPECT_EQ(entry.labels.at("$L__BB0_1"), 0u);

  ASSERT_EQ(entry.statements.size(), 5u);
  EXPECT_EQ(entry.statements[0].guard, "%p2");
  EXPECT_TRUE(entry.statements[0].guard_negated);
  EXPECT_EQ(entry.statements[1].operands[1].bits, ~std::uint64_t{1});
  EXPECT_EQ(entry.statements[2].operands[1].offset, -4);
  EXPECT_EQ(entry.statements[2].line, 25);
  EXPECT_EQ(entry.statements[3].operands[0].kind, Operand::Kind::pair);
  EXPECT_EQ(entry.statements[3].operands[0].parts[1].name, "%p1");
}

void expect_refused(const std::string& text, const char* words) {
  EXPECT_THAT(
      [&] {
        const std::shared_ptr<const Module> module = parse_module("m.ptx", text);
        for (const Entry& entry : module->entries) decode(module, entry);
      },
      testing::ThrowsMessage<UserError>(testing::HasSubstr(words)))
      << text;
}

TEST(PtxParser, WhatItDoesNotKnowIsNamedWithItsLine) {
  expect_refused(entry("\nwmma.load %r1, [%rd1];"), "m.ptx:13: the instruction 'wmma.load'");
  expect_refused(entry("bra nowhere;"), "the label 'nowhere'");
  expect_refused(entry("mov.u32 %q1, 0;"), "'%q1', neither a register nor a variable");
  expect_refused(entry("add.s32 %r1, %rd1, 1;"), "with registers of such widths");
  expect_refused(entry("add.s32 %r1, %r1;"), "with so few operands");
  expect_refused(entry("bar.sync 1;"), "a barrier of other threads than the whole block");
  expect_refused(entry("bar.sync 0, 32;"), "a barrier of other threads than the whole block");
  expect_refused(".func f() { ret; }", "m.ptx:1: '.func' outside of entries");
  expect_refused(".extern .shared .b8 x[];", "shared memory whose size the launch gives");
  expect_refused("\n  #", "m.ptx:2: the character '#'");
  expect_refused("/* ", "a comment without an end");
  expect_refused(".entry f() { ret;", "an entry without an end");
}

}  // namespace parser_test
}  // namespace hetpipe::cuda::ptx::test
