// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "launch/doctor/checks.h"

namespace hetpipe {
namespace {

constexpr double kSlower = 4;              // than the middle one of its class: worth a note
constexpr std::size_t kFewestOfClass = 3;  // links, to say what is usual
constexpr double kSameTime = 1;            // s that clocks may differ by

double slower_way(const LinkNumbers& numbers) { return std::min(numbers.there, numbers.back); }

std::string rate_text(double bytes_per_second) { return format_bytes(bytes_per_second) + "/s"; }

std::string name_of(const PairLink& link, const std::vector<DoctorFacts>& facts) {
  return name_of_rank(facts, link.pair.a) + " <-> " + name_of_rank(facts, link.pair.b);
}

// more: pairs of the same two hosts that do not answer either.
Finding blocked(const PairLink& link, std::size_t more, const std::vector<DoctorFacts>& facts,
                double seconds) {
  Finding finding{Severity::failure, name_of(link, facts), "", "", ""};
  if (more > 0) {
    finding.where += format(" and %zu more pair%s of these hosts", more, more == 1 ? "" : "s");
  }
  if (!link.no_route.empty()) {
    finding.what = "no route";
    finding.why = link.no_route;
    finding.remedy =
        "Give both hosts an address in the same network (ip route get ADDRESS shows a host's "
        "route), or leave one of them out.";
    return finding;
  }
  const auto one_way = [&](int from, int to) {
    return format("no message from rank %d to rank %d within %g s; the other direction works", from,
                  to, seconds);
  };
  if (!link.a_heard_b && !link.b_heard_a) {
    finding.what = format("no answer within %g s", seconds);
  } else if (!link.a_heard_b) {
    finding.what = one_way(link.pair.b, link.pair.a);
  } else if (!link.b_heard_a) {
    finding.what = one_way(link.pair.a, link.pair.b);
  } else {
    finding.what = format("small messages arrive, large ones do not within %g s", seconds);
    finding.why = "usually hosts with different packet sizes (MTU), or a very slow link";
    finding.remedy =
        "Give all interfaces of this network the same MTU, and look for drops on the switch ports.";
    return finding;
  }
  finding.why = "a firewall between the hosts, or an interface that only one of them has";
  finding.remedy =
      "Open all TCP ports between the hosts of a job, or name the network that all of them share: "
      "mpirun --mca btl_tcp_if_include 10.1.0.0/16, under srun OMPI_MCA_btl_tcp_if_include.";
  return finding;
}

// Far below what is usual among links of one class.
void note_slow(const std::vector<const PairLink*>& links, const char* where,
               const std::vector<DoctorFacts>& facts, Check& check) {
  if (links.size() < kFewestOfClass) return;
  std::vector<double> rates;
  for (const PairLink* link : links) rates.push_back(slower_way(*link->numbers));
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  const double usual = *middle;
  for (const PairLink* link : links) {
    const double rate = slower_way(*link->numbers);
    if (rate * kSlower >= usual) continue;
    check.findings.push_back(
        {Severity::note, name_of(*link, facts), "carries " + rate_text(rate),
         format("%s %s is usual here", rate_text(usual).c_str(), where),
         "Check cable, port and driver of the two hosts, or leave one of them out."});
  }
}

}  // namespace

Check check_links(const std::vector<PairLink>& links, const std::vector<DoctorFacts>& facts,
                  double seconds, const std::string& lifelines) {
  Check check{"links", links.empty() ? "one rank: no links" : ""};
  std::vector<const PairLink*> inside, between;
  const PairLink* slowest = nullptr;
  std::size_t answer = 0;
  const auto host_of = [&](int rank) -> const std::string& {
    return facts[at(rank)].machine.rank.host;
  };
  std::map<std::pair<std::string, std::string>, std::vector<const PairLink*>> silent;  // by hosts
  for (const PairLink& link : links) {
    const std::string& host_a = host_of(link.pair.a);
    const std::string& host_b = host_of(link.pair.b);
    if (!link.answers()) {
      silent[std::minmax(host_a, host_b)].push_back(&link);
      continue;
    }
    ++answer;
    (host_a == host_b ? inside : between).push_back(&link);
    if (slowest == nullptr || slower_way(*link.numbers) < slower_way(*slowest->numbers)) {
      slowest = &link;
    }
  }
  for (const auto& [hosts, pairs] : silent) {
    check.findings.push_back(blocked(*pairs.front(), pairs.size() - 1, facts, seconds));
  }
  if (!links.empty()) check.seen = format("%zu of %zu pairs answer", answer, links.size());
  if (slowest != nullptr) {
    check.seen += format("; slowest %s, round trip %s: ranks %d and %d",
                         rate_text(slower_way(*slowest->numbers)).c_str(),
                         format_seconds(2 * slowest->numbers->latency).c_str(), slowest->pair.a,
                         slowest->pair.b);
  }
  note_slow(inside, "within a host", facts, check);
  note_slow(between, "between hosts", facts, check);
  if (!lifelines.empty()) {
    check.findings.push_back(
        {Severity::note, "", "rank 0 cannot connect to " + lifelines,
         "the loss of such a rank is detected only by ranks that wait for it, after --timeout",
         "Let the hosts of a job connect to each other over TCP."});
  }
  return check;
}

Check check_clocks(const std::vector<double>& offsets, const std::vector<DoctorFacts>& facts) {
  Check check{"clocks", "one host: one clock"};
  std::vector<std::string> said{facts.front().machine.rank.host};
  double most = 0;
  for (std::size_t r = 1; r < offsets.size(); ++r) {
    most = std::max(most, std::abs(offsets[r]));
    const std::string& host = facts[r].machine.rank.host;
    if (std::abs(offsets[r]) <= kSameTime ||
        std::find(said.begin() + 1, said.end(), host) != said.end()) {
      continue;
    }
    said.push_back(host);
    check.findings.push_back(
        {Severity::note, name_of_rank(facts, static_cast<int>(r)),
         format("its clock is %s %s that of %s", format_seconds(std::abs(offsets[r])).c_str(),
                offsets[r] > 0 ? "ahead of" : "behind", name_of_rank(facts, 0).c_str()),
         "times in logs and on shared files are wrong; traces are corrected for it",
         "Synchronise the clocks of all hosts with chronyd or ntpd."});
  }
  if (offsets.size() > 1) check.seen = "at most " + format_seconds(most) + " apart";
  return check;
}

}  // namespace hetpipe
