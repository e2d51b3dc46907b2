// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

#include "architectures.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/profile/estimate_record.h"

// How far estimates are off where measurements exist. The bounds are what was found, rounded up, so
// that a change for the worse is noticed; docs/devices-and-profiles.md tells the numbers.
namespace hetpipe {
namespace estimate_accuracy_test {

std::filesystem::path data() {
  return std::filesystem::path(HETPIPE_SOURCE_DIR).parent_path() / "shared/data";
}

double total(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double total(const LayerCosts& costs) { return total(costs.forward) + total(costs.backward); }

// The catalogue's GPU under a name of a measured profile, as a group of `gpus`.
DeviceKind group(const std::string& gpu, const std::string& name, int gpus) {
  DeviceKind kind = kind_from(*find_in_catalogue(gpu), name);
  kind.gpus = gpus;
  return kind;
}

// Leaves only `from` in the profile, estimates `to` from it, and returns estimate / measurement.
double ratio(const Profile& measured, const DeviceKind& from, const DeviceKind& to,
             Precision precision = Precision::fp32) {
  Cluster cluster;
  cluster.kinds = {from, to};
  cluster.nodes = {{"n0", {0, 1}}};
  Profile reduced = measured;
  std::erase_if(reduced.measurements, [&](const Measurement& m) { return m.device != from.name; });
  const Profile estimated = with_estimates(reduced, cluster, precision);
  const int batch = reduced.measurements.at(0).batch;
  return total(costs_on(estimated, to, batch)) / total(costs_on(measured, to, batch));
}

// What a plan built on estimates says of them (estimate_record.h) is what stands here.
void expect_record(const EstimateRecord& record, const std::vector<double>& ratios) {
  double sum = 0;
  double worst = 0;
  for (const double ratio : ratios) {
    sum += std::abs(ratio - 1);
    worst = std::max(worst, std::abs(ratio - 1));
  }
  EXPECT_EQ(record.compared, static_cast<int>(ratios.size()));
  EXPECT_NEAR(record.mean, sum / static_cast<double>(ratios.size()), 0.006);
  EXPECT_NEAR(record.worst, worst, 0.006);
}

// Two RTX 3090 and two TITAN RTX, each pair working together on OPT-350.
TEST(EstimateAccuracy, OneMeasuredPairOfGpusFromTheOther) {
  const auto file = data() / "measured/sailor/mit_N2_D1/profile.toml";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no measured runs at " << file;
  const Profile profile = load_profile(file);
  const DeviceKind ampere = group("rtx-3090", "rtx-3090-x2", 2);
  const DeviceKind turing = group("titan-rtx", "titan-rtx-x2", 2);
  const double up = ratio(profile, turing, ampere);
  const double down = ratio(profile, ampere, turing);
  std::printf("rtx-3090 x2 from titan-rtx x2: %.2f of the measurement, the reverse %.2f\n", up,
              down);
  std::printf("counting tf32: %.2f\n", ratio(profile, turing, ampere, Precision::tf32));
  EXPECT_NEAR(std::log(up * down), 0, 0.3);  // the two errors are inverse, but for rounding
  EXPECT_LT(std::abs(std::log(up)), std::log(1.8));
  EXPECT_LT(std::abs(std::log(down)), std::log(1.8));
}

// In groups of eight over PCIe, exchanging activations takes most of the time, of which a roofline
// knows nothing: the faster card was measured to be the slower one. Only its failing is recorded.
TEST(EstimateAccuracy, GroupsOfEightAreBeyondARoofline) {
  const auto file = data() / "measured/sailor/mit_N4_D2/profile.toml";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no measured runs at " << file;
  const Profile profile = load_profile(file);
  const DeviceKind ampere = group("rtx-3090", "rtx-3090-x8", 8);
  const DeviceKind turing = group("titan-rtx", "titan-rtx-x8", 8);
  const DeviceKind older = group("rtx-2080-ti", "rtx-2080-x8", 8);
  const double alike = ratio(profile, turing, older);
  const double unlike = ratio(profile, turing, ampere);
  std::printf("rtx-2080 x8 from titan-rtx x8: %.2f; rtx-3090 x8 from titan-rtx x8: %.2f\n", alike,
              unlike);
  EXPECT_LT(std::abs(std::log(alike)), std::log(1.15));
  EXPECT_LT(unlike, 0.5);
}

TEST(EstimateAccuracy, TheRecordOfRelativeEstimatesIsTrue) {
  const auto runs = data() / "measured/sailor";
  if (!std::filesystem::exists(runs)) GTEST_SKIP() << "no measured runs at " << runs;
  const Profile pairs = load_profile(runs / "mit_N2_D1/profile.toml");
  const DeviceKind ampere = group("rtx-3090", "rtx-3090-x2", 2);
  const DeviceKind turing = group("titan-rtx", "titan-rtx-x2", 2);
  const Profile eights = load_profile(runs / "mit_N4_D2/profile.toml");
  const DeviceKind measured = group("titan-rtx", "titan-rtx-x8", 8);
  expect_record(kRelativeRecord, {ratio(pairs, turing, ampere), ratio(pairs, ampere, turing),
                                  ratio(eights, measured, group("rtx-2080-ti", "rtx-2080-x8", 8)),
                                  ratio(eights, measured, group("rtx-3090", "rtx-3090-x8", 8))});
}

// Estimate / measurement of one forward and backward on a V100, from flops and bytes alone.
double absolute_ratio(const Profile& network, const std::filesystem::path& file) {
  const Profile published = load_profile(file, {"v100", std::nullopt});
  const Measurement& m = published.measurements.at(0);
  Cluster cluster;
  cluster.kinds = {*try_catalogue_kind("v100")};
  cluster.nodes = {{"n0", {0}}};
  const Profile estimated = with_estimates(network, cluster, Precision::fp32);
  const double seconds = total(m.forward) + total(m.backward);
  const double ratio = total(costs_on(estimated, cluster.kinds[0], m.batch)) / seconds;
  std::printf("%s on a v100 at batch %d, from flops and bytes: %.2f of the published time\n",
              network.model.c_str(), m.batch, ratio);
  return ratio;
}

// Published V100 profiles. VGG's 3 x 3 convolutions run by Winograd's algorithm, which needs fewer
// multiplications than are counted: the estimate is too slow there.
TEST(EstimateAccuracy, AbsoluteAgainstPublishedProfiles) {
  const auto folder = data() / "profiles";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no published profiles at " << folder;
  const double vgg = absolute_ratio(test::vgg19(), folder / "dapple/vgg-19-pbs-32.txt");
  EXPECT_GT(vgg, 1.0);
  EXPECT_LT(vgg, 2.2);
  const double resnet50 = absolute_ratio(test::resnet50(), folder / "pipedream/resnet50.txt");
  EXPECT_LT(std::abs(std::log(resnet50)), std::log(1.5));
  const double resnet101 = absolute_ratio(test::resnet101(), folder / "pipedream/resnet101.txt");
  EXPECT_LT(std::abs(std::log(resnet101)), std::log(1.5));
  expect_record(kAbsoluteRecord, {vgg, resnet50, resnet101});
}

// What HetPipe's testbed can reach at most by the estimates: each kind's samples/s, four of each.
TEST(EstimateAccuracy, HetPipesTestbed) {
  for (const Profile& profile : {test::vgg19(), test::resnet152()}) {
    Cluster cluster;
    double sum = 0;
    for (const char* name : {"titan-v", "titan-rtx", "rtx-2060", "quadro-p4000"}) {
      cluster.kinds = {*try_catalogue_kind(name)};
      cluster.nodes = {{"n0", {0}}};
      const Profile estimated = with_estimates(profile, cluster, Precision::fp32);
      const double rate = 32 / total(costs_on(estimated, cluster.kinds[0], 32));
      sum += 4 * rate;
      std::printf("%s on %s: %.0f samples/s, four of these and of those before: %.0f\n",
                  profile.model.c_str(), name, rate, sum);
      EXPECT_GT(rate, 0);
    }
  }
}

}  // namespace estimate_accuracy_test
}  // namespace hetpipe
