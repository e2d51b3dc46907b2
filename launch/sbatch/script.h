// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/allocation/allocation.h"
#include "partitioner/cluster/cluster.h"

// A batch script for a pool of mismatched nodes, as a plain value and as text.
namespace hetpipe {

// Nodes that are alike for Slurm: with the same GPUs of each type.
struct NodeClass {
  std::vector<std::string> nodes;
  std::map<std::string, int> gpus_of{};  // of each node, by type as Slurm calls it; "": not said
  int gpus() const;
  int ranks() const { return gpus() > 0 ? gpus() : 1; }
};
// Classes with GPUs first, in the order of the nodes.
std::vector<NodeClass> node_classes(const std::vector<AllocatedNode>& nodes);

// The order in which components of a heterogeneous job ask for them: Slurm 22.05's PMIx plug-in
// connects the ranks of a step only if all its nodes, one component after another, are in the order
// of their names.
std::vector<NodeClass> in_order_of_names(std::vector<NodeClass> classes);
// Nodes with which that is not so, whichever order the components have.
std::vector<std::string> nodes_out_of_order(const std::vector<NodeClass>& classes);

// How nodes are requested.
enum class JobShape {
  alike,          // one class: so many nodes with so many GPUs each
  whole_nodes,    // several classes in one job, whole nodes: it can restart on fewer of them
  heterogeneous,  // a component for each class: `#SBATCH hetjob`
};

// Where ranks run.
enum class Container { none, apptainer, singularity, pyxis };

struct BatchJob {
  std::string written_by;  // the command, for the script's head
  std::string name = "hetpipe";
  JobShape shape = JobShape::alike;
  std::vector<NodeClass> classes;
  int least_nodes = 1;  // with which the job may start (not of a heterogeneous one)
  int most_nodes = 1;
  std::vector<std::string> left_out{};  // nodes that Slurm lists and the pool does not
  std::string partition{};              // empty: Slurm's default
  std::string time = "01:00:00";
  int notice_seconds = 120;         // from the signal to the time limit
  std::string array{};              // "0-4": a training for each, with that seed; empty: one
  std::vector<std::string> more{};  // further options of sbatch: "--account=lab"
  bool mpirun = false;              // else srun
  int threads = 1;                  // of each rank
  int attempts = 10;                // in a row that make no progress
  std::string program = "hetpipe";
  std::vector<std::string> setup{};  // lines of bash, before anything else
  Container container = Container::none;
  std::string image{};                 // of the container: a file, or an address
  std::vector<std::string> mounted{};  // folders of this machine that it sees
  std::string folder{};                // where relative paths start: that in which this was written
  std::string pool{};                  // cluster file for --pool; empty: probed in the job
  std::string output{};                // run directory; empty: one for each job, below runs/
  std::vector<std::string> train{};    // further words for hetpipe train
};

std::string script_of(const BatchJob& job);

}  // namespace hetpipe
