"""Which classes a `.credo` file may hold, under names that outlive the modules they live in.

A file says `kernel.RBF`, never where that class is: a move changes one row of the table below, and every file stays
readable. A row is a topic, a module, and its classes; the name of a class in a file is `topic.Class`. A class that was
renamed keeps the old name for files as `New=Old`.
"""

from functools import cache
from importlib import import_module

TABLE = """
core         core.gaussian                      Gaussian
core         core.params                        Constraint Slot
prediction   core.predictive.classes            Bernoulli Categorical
prediction   core.predictive.counts             BetaBinomial DirichletMultinomial NegativeBinomial Poisson
prediction   core.predictive.lognormal          LogNormal Logarithm
prediction   core.predictive.mixtures            Mixture
prediction   core.predictive.real               Laplace MultivariateT Normal StudentT
prediction   core.predictive.recalibrated       BetaLevels RecalibratedCDF SteppedLevels Stretched
prediction   core.predictive.warped             Warped
kernel       kernels.algebra                    Exponentiated PolynomialOf Power Product Scaled Sum
kernel       kernels.coregion                   Coregionalized
kernel       kernels.derivative                 Differentiated
kernel       kernels.discrete                   Categorical SetKernel Tanimoto
kernel       kernels.dotproduct                 Bilinear Linear NeuralNetwork Polynomial
kernel       kernels.elementary                 Constant Custom FromFeatures White
kernel       kernels.graphs                     GraphDiffusion GraphMatern Laplacian SpectralEmbedding
kernel       kernels.graphs                     WeisfeilerLehman
kernel       kernels.inputs                     OnColumns OfFunction=Warped
kernel       kernels.manifolds                  OnCircle OnSphere
kernel       kernels.principal_components       KernelPCA
kernel       kernels.matern                     Matern
kernel       kernels.measures                   Convolution Elliptical Harmonics Mixture Pair Placed Repeated
kernel       kernels.measures                   SignedNormal Zero
kernel       kernels.nonstationary              Brownian ChangePoint Gibbs
kernel       kernels.periodic                   CenteredPeriodic Cosine LocallyPeriodic Periodic SpectralMixture
kernel       kernels.random_fourier            RandomFeatures
kernel       kernels.rkhs                       RKHSFunction
kernel       kernels.stationary                 Exponential Matern32 Matern52 RBF RationalQuadratic
kernel       kernels.strings                    EditDistance Spectrum Subsequence
kernel       kernels.tabulated                  Tabulated
infer        infer.averaging                    Averaged Integrated
infer        infer.diagnostics                  Diagnostics
infer        infer.importance_sampling          WeightedDraws=Weighted
infer        infer.mcmc.draws                   Draws
infer        infer.mcmc.smc                     Particles
infer        infer.priors                       LogNormal LogScalePenalty LogitPenalty NormalPenalty
infer        infer.priors                       PenaltyDensity
infer        infer.posterior                    LowRankNormal NormalApproximation
infer        infer.target                       ParameterSpace=Space
acquisition  decide.acquisition.batch           BatchExpectedImprovement BatchNoisyExpectedImprovement
acquisition  decide.acquisition.batch           BatchUpperConfidenceBound
acquisition  decide.acquisition.confidence_bounds LowerConfidenceBound UpperConfidenceBound
acquisition  decide.acquisition.cost            AffineCost AtTarget Costly MultiFidelity PerCost
acquisition  decide.acquisition.hypervolume     BatchExpectedHypervolumeImprovement Beyond
acquisition  decide.acquisition.hypervolume     ExpectedHypervolumeImprovement
acquisition  decide.acquisition.improvement     Constrained ExpectedImprovement Feasibility LogExpectedImprovement
acquisition  decide.acquisition.improvement     NoisyExpectedImprovement ProbabilityOfImprovement
acquisition  decide.acquisition.information     MaxEntropy MaxValueEntropySearch MaxVariance MutualInformation
acquisition  decide.acquisition.joint_draws     Baseline
acquisition  decide.acquisition.lookahead       ExpectedVarianceReduction InformationDirected KnowledgeGradient
acquisition  decide.acquisition.pending         Believer LocalPenalization
acquisition  decide.acquisition.thompson        Thompson
agent        decide.agents.belief               WorldBelief
agent        decide.agents.control              Agent DoubleQ ExpectedSARSA OptimisticQ QLearning SARSA Tabular
agent        decide.agents.exploration          EpsilonGreedy FixedPolicy Greedy SoftmaxExploration UCB
agent        decide.agents.nstep_dyna           Dyna NStep
agent        decide.agents.planning             ModelBased PosteriorSampling RMax
agent        decide.agents.run                  Run
agent        infer.schedules                    ConstantSchedule ExponentialDecay Harmonic PolynomialDecay RobbinsMonro
agent        decide.agents.td                   Estimates TD
agent        decide.agents.trajectories         Trajectory
app          app.forecast.model                 SeriesModel
app          app.forecast.calendar              Calendar Season
app          app.table.columns                  Column Schema Period
app          app.fit.model                      TableModel
conjugate    models.conjugate.base              Statistics
conjugate    models.conjugate.binary            BetaBernoulli BetaBinomial BinaryCounts
conjugate    models.conjugate.categorical       ClassCounts DirichletCategorical DirichletMultinomial
conjugate    models.conjugate.counts            EventCounts GammaPoisson
conjugate    models.conjugate.hierarchical      EmpiricalBayes HierarchicalBernoulli
conjugate    models.conjugate.hypotheses        Hypotheses OutcomeCounts
conjugate    models.conjugate.known             Binomial Known Multinomial MultivariateNormal
conjugate    models.conjugate.matrix            JointMoments MatrixNormalInverseWishart
conjugate    models.conjugate.multivariate      GaussianParameters NormalInverseWishart
conjugate    models.conjugate.normal            Moments NormalInverseGamma NormalKnownVariance NormalParameters
conjugate    models.conjugate.quadrature        HyperPrior Hyperparameters PopulationCounts
decide       decide.acquiring                   Margin Uncertainty
decide       decide.custom                      CustomLoss
decide       decide.trained_for_loss            TrainedForLoss
decide       decide.losses                      Absolute Asymmetric CostMatrix IntervalLoss Pinball Squared ZeroOne
density      models.densities.bernoulli         Bernoulli Betas
density      models.densities.categorical       CategoricalDensity
density      models.densities.columns           Columns
density      models.densities.custom            CustomDensity Free
density      models.densities.directions        Directions
density      models.densities.base              Observed
density      models.densities.factor            FactorAnalyser
density      models.densities.gamma             ColumnMoments NormalInverseGammas
density      models.densities.gaussian          Gaussian
density      models.densities.heavy_tailed      Student WeightedMoments
density      models.densities.mixture           GaussianMixture MixtureStatistics
density      models.densities.poisson           Gammas Poisson
density      models.densities.regression        Regression
density      models.densities.vonmises          Resultants VonMises
evaluate     evaluate.conformal_prediction      Conformal ConformalPrediction
evaluate     evaluate.recalibration             LogitMap OneVersusRest Recalibrated Stretch Tempered
feature      models.features.compose            Chosen Composed Concatenate Custom OfKernel OnColumns Product Tensor
feature      models.features.fourier            Fourier
feature      models.features.local              BSpline Bumps
feature      models.features.polynomial         InterceptOnly Polynomial
feature      models.features.scaling            Affine Standardize
feature      models.features.wavelets           Daubechies Haar
generative   models.generative.belief           Generative
generative   models.generative.between          Between
generative   models.generative.class_conditional ClassConditional
generative   models.generative.discriminant     Discriminant
generative   models.generative.naive            NaiveBayes
generative   models.generative.statistics       PointEstimate Seen
generative   models.generative.tables           Labelled
glm          models.glm.belief                  GLM
glm          models.glm.models                  Logistic NegativeBinomialRegression OrdinalRegression
glm          models.glm.models                  PoissonRegression Probit Softmax StudentTRegression
glm          models.glm.newton                  GaussianPrior Rows
glm          models.glm.predictions             Overdispersed WeightLaw
gp           models.gp.belief                   GP
gp           models.gp.data                     Rows
gp           models.gp.exact                    Cholesky
gp           models.gp.heteroscedastic          HeteroscedasticGP Noises
gp           models.gp.independent              Independent
gp           models.gp.large.fourier            Fourier FourierGP Grid
gp           models.gp.large.inducing           Inducing InducingGP
gp           models.gp.large.lattice            Lattice
gp           models.gp.large.latent             FeaturePosterior InducingLatentGP
gp           models.gp.large.latent_classes     ClassesPosterior InducingLatentClasses
gp           models.gp.large.low_rank           Moments Weights
gp           models.gp.large.local              Local LocalGP
gp           models.gp.large.neighbours         Neighbours NeighboursGP
gp           models.gp.spatial.field            Field
gp           models.gp.spatial.longitudes       InSpace
gp           models.gp.terrain.belief           Seen Terrain
gp           models.gp.terrain.lattice          Cells
gp           models.gp.terrain.registration     Registration
gp           models.gp.large.random_features    RandomFeatures RandomFeaturesGP
gp           models.gp.large.ski                GridPosterior SKI SKIGP
gp           models.gp.large.vecchia            Trend
gp           models.gp.latent                   LatentGP
gp           models.gp.latent_base              FunctionDraws
gp           models.gp.latent_classes           LatentClasses LogOdds
gp           models.gp.means                    Basis BeliefMean Constant Design DifferentiatedMean
gp           models.gp.means                    FunctionMean Mean Zero
gp           models.gp.multioutput              MultiGP OutputMeans
gp           models.gp.robust                   RobustGP
gp           models.gp.sampling                 Embedded Functions Inside Together Weighted
gp           models.gp.sites                    Sites
gp           models.gp.softmax_sites            SoftmaxSites
gp           models.gp.state_space.belief       StateSpaceGP
gp           models.gp.state_space.passes       Passed
gp           models.gp.state_space.series       Series
gp           models.gp.warped                   WarpedGP
gp           models.gp.warps                    Identity Log Steps
gp           models.gp.watched                  AtCandidates
factor       models.factor.belief               FactorAnalysis PPCA
factor       models.factor.statistics           Rows
experts      models.experts.belief              Experts
experts      models.experts.family              ExpertRows
experts      models.experts.generalized         GeneralizedRegression
mixture      models.mixture.bayes               DrawnMixture
mixture      models.mixture.belief              Expected Mixture
hmm          models.hmm.belief                  HMM
hmm          models.hmm.bayes                   DrawnHMM
hmm          models.hmm.driven                  InputHMM
hmm          models.hmm.durations               Tied
kernel_methods models.kernel_methods.base       LocalMixture
kernel_methods models.kernel_methods.density    KernelDensity
kernel_methods models.kernel_methods.neighbours KernelNeighbours
kernel_methods models.kernel_methods.regression KernelRegression
lds          models.lds.belief                  LDS
lds          models.lds.checks                  Varying
lds          models.lds.kalman                  StateLaw
lds          models.lds.learning                Floors
lds          models.lds.gibbs                   DrawnLDS MatrixPrior
likelihood   models.likelihoods.classes         Bernoulli Categorical Probit
likelihood   models.likelihoods.numbers         NegativeBinomial Poisson StudentT
likelihood   models.likelihoods.ordinal         Ordinal
linear       models.linear.belief               Linear
linear       models.linear.drawn                LinearDraws
linear       models.linear.log_joint            Normals Unknowns Whitened
linear       models.linear.posterior            Weights
linear       models.linear.priors               ARD Intercept Isotropic LaplacePrior StudentTPrior
linear       models.linear.shrinkage            Horseshoe
linear       models.linear.statistics           Rows Statistics
markov       models.markov.chain                MarkovChain
markov       models.markov.sequence             MarkovSequence TransitionCounts
mdp          decide.mdp.linear_program          LinearProgram
mdp          decide.mdp.model                   MDP
mdp          decide.mdp.outcomes                Outcomes
mdp          decide.mdp.plan                    AveragePlan DiscountedPlan HorizonPlan
mdp          decide.mdp.policy_iteration        ModifiedPolicyIteration PolicyIteration
mdp          decide.mdp.solving                 Automatic
mdp          decide.mdp.value_iteration         GaussSeidel PrioritizedSweeping ValueIteration
mdp          decide.mdp.wavefront               Wavefront
network      models.network.belief             Network
network      models.network.drawn              DrawnNetwork LikelihoodWeighting NetworkGibbs
network      models.network.nodes              LinearGaussian NoisyOr Table
network      models.network.predictions        States
pomdp        decide.pomdp.belief                BeliefState
pomdp        decide.pomdp.learning              POMDPBelief
pomdp        decide.pomdp.methods               FIB HSVI PBVI Perseus QMDP SARSOP ValueIteration
pomdp        decide.pomdp.model                 POMDP
pomdp        decide.pomdp.plan                  AlphaPlan
pomdp        decide.pomdp.sawtooth              Sawtooth
pomdp        decide.pomdp.vectors               AlphaVectors
neural       models.neural.belief               Neural Rows
neural       models.neural.network              Network
neural       models.neural.scaling              Scaling
noise        models.noise                       Covariance GaussianNoise InverseGamma KnownNoise LaplaceNoise
noise        models.noise                       StudentTNoise
nonlinear    models.nonlinear.belief            StateSpaceModel
nonlinear    models.nonlinear.gaussian_filters  Extended Unscented
nonlinear    models.nonlinear.laws              Cloud ParticleFiltered
nonlinear    models.nonlinear.model             Dynamics
nonlinear    models.nonlinear.particle          Particles
sequences    models.sequences                   Sequences
sequences    models.state_laws                  FilteredStates SmoothedStates
structural   models.structural.base             SeriesScales
structural   models.structural.belief           Past Structural
structural   models.structural.parts            AR Cycle Level Regression Seasonal Trend
structural   models.structural.series           Series
"""


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Where each savable class is: its name in files → (module, class)."""
    homes: dict[str, tuple[str, str]] = {}
    for row in TABLE.strip().splitlines():
        topic, module, *classes = row.split()
        for entry in classes:
            name, _, written = entry.partition("=")
            homes[f"{topic}.{written or name}"] = (f"credo.{module}", name)
    return homes


@cache
def _names() -> dict[tuple[str, str], str]:
    return {home: name for name, home in _homes().items()}


def savable_name(cls: type) -> str | None:
    """The name of a class in files; None where it is not registered."""
    return _names().get((cls.__module__, cls.__qualname__))


def savable_class(name: str) -> type | None:
    """The class of that name in files; None where there is none. Only modules of credo are ever imported."""
    if name not in _homes():
        return None
    module, cls = _homes()[name]
    found: type = getattr(import_module(module), cls)
    return found
