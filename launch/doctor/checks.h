// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "launch/data/feed.h"
#include "launch/doctor/facts.h"
#include "launch/doctor/finding.h"
#include "launch/doctor/links.h"
#include "launch/doctor/output.h"
#include "launch/train/start.h"
#include "runtime/training/job.h"
#include "runtime/training/rank_device.h"
#include "runtime/training/roles.h"

// From what the ranks saw to the findings: pure functions, one for each thing that is
// checked. Facts are by rank.
namespace hetpipe {

// Whether the ranks share one MPI world. `refused`: why MPI could not be started, or has
// another number of ranks than the launcher (texts of check_launcher and check_world). And whether
// they were started alike. srun_offers: output of `srun --mpi=list`; empty: not asked.
Check check_launch(const std::vector<DoctorFacts>& facts, const std::vector<Problem>& refused,
                   const std::string& srun_offers);

// One version of each thing on all ranks that have it.
Check check_versions(const std::vector<DoctorFacts>& facts);

// The files of --plan, --cluster and --profile, as far as they could be read.
struct PlannedRun {
  std::vector<Problem> problems{};  // of the files, in themselves and against each other
  std::vector<std::string> notes{};
  bool has_plan = false;
  bool from_allocation = false;  // the job's cluster; its plan is made when it starts
  bool from_pool = false;        // with devices as --pool has them, not as the scheduler calls them
  TrainJob job{};
  std::string files{};  // "plan.toml, cluster.toml", "Slurm job 17"; empty: none was given
};
// Number and hosts of ranks against the plan; without a plan, hosts against the cluster, ranks
// against the devices of an allocation. `command`
// goes into the launch lines. roles: if there is no problem.
Check check_plan_ranks(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                       const std::string& command, std::optional<Roles>& roles);

// Where a rank with a role computes, or why it cannot.
struct FoundDevice {
  RankDevice device;
  std::string failure{};
};
constexpr auto fields_of(Type<FoundDevice>) {
  return fields<&FoundDevice::device, &FoundDevice::failure>;
}
// Every worker has a card of the type that the plan was made for. No roles: devices of the cluster
// against the cards of its hosts.
Check check_devices(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                    const std::optional<Roles>& roles, const std::vector<FoundDevice>& devices);

// Every pair; seconds: after which a message counts as lost. lifelines: Lifeline::problem().
Check check_links(const std::vector<PairLink>& links, const std::vector<DoctorFacts>& facts,
                  double seconds, const std::string& lifelines);

// How far each rank's clock (the time of day) is before rank 0's, in seconds.
Check check_clocks(const std::vector<double>& offsets, const std::vector<DoctorFacts>& facts);

// The card on which a rank computes: that of its role, else the only one that it sees; null: it has
// none, or it is not known which. devices: empty without roles.
const SeenCard* card_of_rank(const std::vector<DoctorFacts>& facts,
                             const std::vector<FoundDevice>& devices, std::size_t rank);

// Whether each rank's threads have cores, no core is bound twice, and a rank's cores are near its
// card.
Check check_cores(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                  const std::optional<Roles>& roles, const std::vector<FoundDevice>& devices,
                  int threads, const std::string& command);

// Whether the ranks that read samples can, see the same ones, and are as fast as the plan trains.
// `data`: --data; seen: by rank.
Check check_data(const PlannedRun& run, const std::string& data,
                 const std::vector<DoctorFacts>& facts, const std::optional<Roles>& roles,
                 const std::vector<DataSeen>& seen);

// needed: bytes of the checkpoints that the run keeps; 0: not known. seen: by rank, rank 0's empty.
Check check_output(const OutputFacts& output, const std::vector<OutputSeen>& seen,
                   const std::vector<DoctorFacts>& facts, double needed);

// From `scontrol --oneliner show job`; empty outside of a job.
Check check_job(const std::string& job, const std::string& scontrol_job);

// Bytes of the checkpoints of a run that keeps so many (0: all, at least two): parameters,
// optimizer slots and, for a continuation bit for bit, as much again for each minibatch in flight.
// 0 without a profile, which knows the parameters.
double checkpoint_bytes(const TrainJob& job, int keep);

}  // namespace hetpipe
