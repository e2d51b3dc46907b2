// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launch/doctor/lying.h"

namespace hetpipe {
namespace link_checks_test {

using test::fact;
using test::said;
using test::three_hosts;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- links
// -----------------------------------------------------------------------------------------------

PairLink link(int a, int b, double rate = 1e9) {
  return {{a, b}, true, true, LinkNumbers{1e-5, rate, rate, 1 << 20}};
}

TEST(CheckLinks, ABlockedPairIsNamedWithBothWays) {
  std::vector<PairLink> links{link(0, 1), link(0, 2), {{1, 2}, false, false, {}}};
  Check check = check_links(links, three_hosts(), 5, "");
  EXPECT_THAT(said(check), ElementsAre(AllOf(HasSubstr("failure: rank 1 on n1 <-> rank 2 on n2: no "
                                                       "answer within 5 s ("),
                                             HasSubstr("btl_tcp_if_include"))));
  EXPECT_THAT(check.seen, HasSubstr("2 of 3 pairs answer; slowest 1.0 GB/s"));
  links[2] = {{1, 2}, true, false, {}};
  EXPECT_THAT(said(check_links(links, three_hosts(), 5, "")),
              ElementsAre(HasSubstr("no message from rank 1 to rank 2 within 5 s")));
  links[2] = {{1, 2}, false, true, {}};
  EXPECT_THAT(said(check_links(links, three_hosts(), 5, "")),
              ElementsAre(HasSubstr("no message from rank 2 to rank 1 within 5 s")));
  links[2] = {{1, 2}, true, true, {}};
  EXPECT_THAT(said(check_links(links, three_hosts(), 5, "")),
              ElementsAre(AllOf(HasSubstr("large ones do not within 5 s"), HasSubstr("MTU"))));
}

TEST(CheckLinks, NoRouteIsNamedWithItsReason) {
  PairLink parted{{0, 1}, false, false, {}};
  parted.no_route = "10.0.0.2: Network is unreachable";
  EXPECT_THAT(said(check_links({parted}, three_hosts(), 5, "")),
              ElementsAre(HasSubstr("failure: rank 0 on n0 <-> rank 1 on n1: no route (10.0.0.2: "
                                    "Network is unreachable). Give both hosts")));
}

TEST(CheckLinks, PairsOfTwoHostsAreOneFinding) {
  const std::vector<DoctorFacts> facts{fact("n1"), fact("n0"), fact("n0")};
  const std::vector<PairLink> links{
      {{0, 1}, false, false, {}}, {{0, 2}, false, false, {}}, link(1, 2)};
  EXPECT_THAT(
      said(check_links(links, facts, 5, "")),
      ElementsAre(HasSubstr("rank 0 on n1 <-> rank 1 on n0 and 1 more pair of these hosts: no")));
}

TEST(CheckLinks, OneThatIsFarSlowerIsANote) {
  EXPECT_THAT(said(check_links({link(0, 1), link(0, 2), link(1, 2, 1e8)}, three_hosts(), 5, "")),
              ElementsAre(AllOf(HasSubstr("note: rank 1 on n1 <-> rank 2 on n2: carries 100 MB/s"),
                                HasSubstr("1.0 GB/s between hosts is usual"))));
  EXPECT_THAT(check_links({link(0, 1), link(0, 2, 4e8), link(1, 2)}, three_hosts(), 5, "").findings,
              IsEmpty());
}

TEST(CheckLinks, NoLifelineIsANote) {
  EXPECT_THAT(said(check_links({link(0, 1)}, three_hosts(), 5, "rank 1 (refused)")),
              ElementsAre(HasSubstr("note: rank 0 cannot connect to rank 1 (refused)")));
}

TEST(CheckClocks, OneThatIsWrong) {
  EXPECT_THAT(check_clocks({0, 0.2, -0.9}, three_hosts()).findings, IsEmpty());
  EXPECT_THAT(
      said(check_clocks({0, 7200, -90}, three_hosts())),
      ElementsAre(HasSubstr("note: rank 1 on n1: its clock is 2 h 00 m ahead of that of rank 0"),
                  HasSubstr("note: rank 2 on n2: its clock is 1 m 30 s behind that of rank 0")));
}

}  // namespace link_checks_test
}  // namespace hetpipe
