"""The cases of golden.py as tables: each line has a name, then arguments of a command line."""

METRICS = ["--metric", "ndcg@5", "--metric", "mrr", "--metric", "map@10", "--metric", "recall@3"]
SHORT = ["warm_up.epochs=1", "fine_tuning.epochs=2", "fine_tuning.decay={1:0.5}", "batch.queries=16", "device=cpu"]
FAST = ["warm_up.learning_rate=0.02", "fine_tuning.learning_rate=0.02", "fine_tuning.epochs=3", "validation.every=0"]
SAMPLE = ["batch.relevant=4", "batch.irrelevant=20"]
TIMES = ("seconds", "ms", "ms at first", "ms at last", "exponent", "relative to SONG")
"""Columns of the paper's tables that depend on times."""


def rows(text: str) -> dict[str, list[str]]:
    """A table: each line has a name, then words."""
    return {words[0]: words[1:] for words in map(str.split, text.strip().splitlines())}


SMALL_PAPER = ["--data", "movielens-1m=data/planted", "--data", "mq2008=data/planted-search", "--quick", "--jobs", "1"]
SMALL_PAPER += ["--data", "bibtex=data/planted-labels", "--seeds", "1", "--device", "cpu", "-q"]
PAPER = ["table-stats", "table-xml", "table-ltr", "table-rs", "summary", "theory", "fig-functions", "fig-stop-gradient"]
PAPER += ["fig-gamma", "fig-ablation", "fig-full-items", "fig-theo-prac", "fig-bilevel", "fig-faster"]
PAPER += ["fig-convergence", "fig-peers", "fig-complexity"]
COMMANDS = ["train", "evaluate", "compare", "ensemble", "report", "tune", "recommend", "rank", "label", "export"]
COMMANDS += ["paper", "demo", "recipes", "data"]
K_OPTIONS = """mode=practical selector=smooth_step selector_scale=1.0 threshold_rate=0.1 threshold_gamma=0.7
epsilon=0.25 tau1=0.5 tau2=0.01 smoothing=hinge centre=zero surrogate=logistic margin=2 rank_offset=16 gamma=0.5"""
MODELS = rows("""
neumf clicks neumf model.dim=4 model.hidden=[4]
matrix-factorisation clicks neumf model.dim=4
two-tower clicks neumf model.dim=4
lightgcn clicks neumf model.dim=4
sequence clicks sequences model.dim=4 model.blocks=1 model.heads=1 model.length=6
history clicks histories model.dim=4 model.length=6
context-aware letor search model.dim=4 model.blocks=1 model.feed_forward=4
mlp letor search model.hidden=[4]
label-mlp xmc labelling model.hidden=[4]
xml-cnn texts labelling-text model.dim=4 model.filters=2 model.bottleneck=4
text-transformer texts labelling-text model.dim=4 model.blocks=1 model.heads=1
""")  # model: data set, recipe, changes for a small model
LOSS_OPTIONS = rows(
    """
song gamma=1.0 surrogate=smooth_hinge surrogate=logistic surrogate=sigmoid \
    margin=2 rank_offset=16 lagged=true estimator=plain
k-song K-OPTIONS lagged=true estimator=plain form=rank threshold_step=gradient implicit=memory k=2
faster-song memory=msvr memory=moving_average lagged=false points=1 gamma={c0:50,a:0.3} gamma={c0:50,a:0.3,c:2} \
    surrogate=smooth_hinge rank_offset=16 estimator=plain margin=2
faster-k-song K-OPTIONS memory=msvr memory=moving_average lagged=false points=1 estimator=plain \
    threshold_step=newton implicit=slate gamma={c0:50,a:0.3}
listwise-ce gamma=1.0 estimator=plain
ranknet sigma=2.0
bpr sigma=2.0
lambdarank sigma=2.0 k=3
lambdaloss sigma=2.0 mu=3.0 k=3
gbce t=0.5
approx-ndcg temperature=0.3
gumbel-approx-ndcg temperature=0.3 samples=3 scale=0.5
neural-ndcg temperature=0.3 k=3 sinkhorn_iterations=5
pirank temperature=0.3 k=3
""".replace("K-OPTIONS", K_OPTIONS.replace("\n", " "))
)  # loss: options, one per run
RECIPE_KEYS = rows("""
adam neumf fine_tuning.optimiser=adam
lazy-adam neumf fine_tuning.optimiser=lazy-adam warm_up.optimiser=lazy-adam
lazy-adam-decay matrix-factorisation fine_tuning.optimiser=lazy-adam fine_tuning.weight_decay=0.01
sgd neumf fine_tuning.optimiser=sgd fine_tuning.momentum=0.5 fine_tuning.weight_decay=0.01
sgd-without-momentum mlp fine_tuning.optimiser=sgd fine_tuning.momentum=0
clip neumf fine_tuning.clip=1e-4 warm_up.clip=1e-4
average neumf fine_tuning.ema_decay=0.6 warm_up.ema_decay=0.5 warm_up.epochs=3
decay neumf warm_up.epochs=4 warm_up.decay={1:0.5,3:0.1}
item-decay-power neumf fine_tuning.item_decay_power=1.0 fine_tuning.weight_decay=0.01
item-decay-power-two-tower two-tower fine_tuning.item_decay_power=0.5 fine_tuning.weight_decay=0.01
item-decay-power-sgd neumf fine_tuning.item_decay_power=0.5 fine_tuning.weight_decay=0.01 fine_tuning.optimiser=sgd
weight-decay neumf fine_tuning.weight_decay=0.05 warm_up.weight_decay=0.05
storm neumf loss=faster-song loss.points=2 fine_tuning.correction=0.5
storm-sgd neumf loss=faster-song fine_tuning.optimiser=sgd fine_tuning.weight_decay=0.01
storm-msvr-schedule neumf loss=faster-song loss.memory=msvr loss.gamma={c0:50,a:0.3}
storm-k neumf loss=faster-k-song loss.k=5 fine_tuning.correction=0.3 fine_tuning.epochs=4
storm-lists mlp loss=faster-song fine_tuning.correction=0.5
storm-sequence sequence loss=faster-song fine_tuning.correction=0.5
one-point-average neumf loss=faster-song loss.points=1 fine_tuning.ema_decay=0.5 fine_tuning.clip=1e-4
faster-warm-up neumf warm_up.loss={name:faster-song,points:2} warm_up.correction=0.5
following sequence batch.following=3
windows-random sequence batch.windows=random model.length=4
windows-last sequence batch.windows=last model.length=4
windows-sliding sequence batch.windows=sliding model.length=4
windows-prefix sequence batch.windows=prefix model.length=4 model.positions=end model.embedding_norm=true
sequence-options sequence model.relative=true model.time_bias=true model.gates=true model.embedding_dropout=0.1
validation-candidates neumf validation.candidates=10 validation.every=1
validation-metric neumf validation.metric=map@5 validation.every=2
validation-every neumf validation.every=1
bfloat16 neumf precision=bfloat16
bfloat16-lists context-aware precision=bfloat16
bfloat16-sequence sequence precision=bfloat16
tf32 neumf precision=tf32
deterministic neumf deterministic=true
patience neumf validation.patience=1 validation.every=1 fine_tuning.epochs=12
keep-head neumf fine_tuning.reset_head=false
reset-head-lists context-aware fine_tuning.reset_head=true
reset-head-sequence sequence fine_tuning.reset_head=true
reset-head-labels xml-cnn fine_tuning.reset_head=false
relevant-all neumf batch.relevant=all batch.irrelevant=all
relevant-one neumf batch.relevant=1 batch.irrelevant=3
labels-sampled label-mlp batch.relevant=2 batch.irrelevant=4
length mlp batch.length=4
lists-sampled mlp batch.length=null batch.relevant=2 batch.irrelevant=3
gain-linear neumf gain=linear
ties-average mlp evaluation.ties=average evaluation.empty=one evaluation.metrics=[ndcg@3,ndcg]
empty-zero mlp evaluation.empty=zero evaluation.metrics=[hit_rate@1,precision@3,dcg@3]
no-warm-up neumf warm_up.epochs=0
no-fine-tuning neumf fine_tuning.epochs=0
warm-up-softmax mlp warm_up.loss=softmax
seed neumf seed=7
cosine two-tower model.similarity=cosine model.temperature=0.2
cosine-factors matrix-factorisation model.scoring=cosine model.temperature=0.2
cosine-graph lightgcn model.layers=3 model.scoring=cosine model.temperature=0.2 model.learn_temperature=true
cosine-sequence sequence model.scoring=cosine model.temperature=0.2
cosine-history history model.scoring=cosine model.temperature=0.2
no-bias matrix-factorisation model.bias=false
activation-tanh mlp model.activation=tanh model.dropout=0.5
two-blocks context-aware model.blocks=2 model.heads=2
deep-neumf neumf model.hidden=[8,4] model.dropout=0.5
binary-data neumf data=data/binary
random-split-data neumf data=data/random
weighted-data mlp data=data/table-weights
truncated-data mlp data=data/letor-truncated batch.length=null
float16-data mlp data=data/letor-float16
history-repeated history data=data/sequences
sequence-repeated sequence data=data/sequences
arff-labels label-mlp data=data/arff
""")  # case: model, changes
PREPARED = rows("""
clicks interactions raw/clicks.csv
binary interactions raw/clicks.csv --labels binary --duplicates first --min-rating 2
random interactions raw/clicks.csv --split random --seed 3 --validation 0.2 --test 0.2
time interactions raw/clicks.parquet --split time --duplicates max
raw-clicks interactions raw/clicks.parquet --preset raw
fewer interactions raw/clicks.tsv --min-interactions 8 --min-per-item 10 --holdout 2 --drop-last 2
columns interactions raw/odd.csv --query-column who --item-column what --label-column none --time-column none \
    --separator ; --encoding latin-1
movielens-100k movielens-100k raw/u.data
movielens-1m movielens-1m raw/ratings.dat --min-rating 3
movielens-10m movielens-10m raw/ratings.dat --preset raw
movielens-20m movielens-20m raw/ratings.csv
movielens-25m movielens-25m raw/ratings.csv --split random
movielens-32m movielens-32m raw/ratings.csv --split time --labels binary
netflix netflix raw/netflix --min-interactions 5
sequences sequences raw/sequences.txt
letor letor raw/letor --standardise
letor-missing letor raw/letor --log-features all --missing mean --missing-flags --within-query z-rank
letor-random letor raw/letor/train.txt --split random --seed 2 --missing min --within-query rank
letor-truncated letor raw/letor --truncate 5 --log-features auto --within-query z
letor-float16 letor raw/letor --dtype float16 --first-index 0 --max-index 20
letor-paper letor raw/letor --preset paper
mslr-web10k mslr-web10k raw/mslr
mslr-web30k mslr-web30k raw/mslr --preset raw
yahoo-ltr yahoo-ltr raw/yahoo --set 1
table feature-table raw/table.csv --ignore weight --standardise
table-weights feature-table raw/table.parquet --weight-column weight --within-query z
table-random feature-table raw/table.csv --ignore split,weight --split random
xmc xmc raw/xmc --validation 0.2 --scale l2
xmc-log xmc raw/xmc/train.txt --split random --scale log-l2 --seed 4
texts xmc-text raw/texts --validation 0.2
texts-words xmc-text raw/texts --max-tokens 4 --vocabulary-size 12 --min-count 2 --no-lowercase
texts-lines xmc-text raw/lines
texts-random xmc-text raw/texts/train.jsonl --split random
label-table label-table raw/labels.parquet --scale l2 --seed 5
arff arff raw/arff --validation 0.2
arff-counted arff raw/arff/x-train.arff --labels 2 --label-position last
planted synthetic --queries 40 --items 60 --pairs 600
planted-noise synthetic --queries 40 --items 60 --pairs 600 --noise 0.7 --holdout 2 --seed 3
planted-search synthetic --task search --queries 50 --items 400 --features 6
planted-labels synthetic --task labelling --queries 90 --items 20 --pairs 200 --features 40 --words 8
demo-recommendation synthetic
demo-search synthetic --task search --shape demo
demo-labelling synthetic --task labelling
shape-movielens-1m synthetic --shape movielens-1m --queries 300 --items 400
shape-netflix synthetic --shape netflix --queries 100 --items 900
shape-movielens-100k synthetic --shape movielens-100k --queries 200 --items 150
shape-movielens-20m synthetic --shape movielens-20m --queries 200 --items 350
shape-mslr-web10k synthetic --shape mslr-web10k --queries 60
shape-mslr-web30k synthetic --shape mslr-web30k --queries 60
shape-yahoo-ltr synthetic --shape yahoo-ltr --queries 60
shape-eurlex-4k synthetic --shape eurlex-4k --queries 200 --items 50 --features 900
shape-wiki10-31k synthetic --shape wiki10-31k --queries 200 --items 90 --features 2000
""")  # case: arguments of `songrank data prepare`
REAL = rows("""
real-ml-100k movielens-100k ml-100k.zip
real-ml-1m movielens-1m ml-1m.zip --min-interactions 30
real-beauty sequences sequences.zip/Beauty.txt
real-health interactions ir-benchmark.zip/ir-benchmark/amazon2014-health/train.tsv \
    --split random --query-column user_procid --item-column item_procid
real-mq2008 letor mq2008.zip --fold 1 --standardise --within-query z-rank
real-mq2007 letor mq2007-agg.zip --fold 3 --log-features all --missing mean --missing-flags
real-lightgbm letor lightgbm-rank.zip --validation 0.1
real-mslr letor mslr-web10k-sample.zip --preset paper
real-eurlex xmc eurlex-4k.zip --validation 0.1 --scale log-l2
real-bibtex arff bibtex.zip --validation 0.1
""")  # the same for archives in the directory of --data
ERRORS = rows(
    """
unknown-loss TRAIN loss=sonk
unknown-loss-list TRAIN loss=zzz
unknown-model-list TRAIN model=zzz
unknown-loss-option TRAIN loss.gama=0.3
unknown-recipe-key TRAIN fine_tuning.rate=0.3
unknown-recipe train movielens-2m -q -o OUT
loss-out-of-range TRAIN loss.gamma=1.5
k-missing train raw/no-k.yaml -q -o OUT
negative-epochs TRAIN fine_tuning.epochs=-1
no-epochs TRAIN fine_tuning.epochs=0 warm_up.epochs=0
missing-data train recommendation data=nowhere -q -o OUT
data-not-prepared train recommendation data=raw -q -o OUT
wrong-model-for-data TRAIN model=mlp
model-of-words-for-features train labelling-text data=data/xmc -q -o OUT
lazy-adam-with-clip TRAIN fine_tuning.optimiser=lazy-adam fine_tuning.clip=1
lazy-adam-with-item-decay TRAIN fine_tuning.optimiser=lazy-adam fine_tuning.item_decay_power=1
correction-with-song TRAIN fine_tuning.correction=0.5
clip-at-two-points TRAIN loss=faster-song fine_tuning.clip=1
lazy-adam-with-faster TRAIN loss=faster-song fine_tuning.optimiser=lazy-adam
bad-metric TRAIN validation.metric=ndgc@10
bad-cutoff TRAIN evaluation.metrics=[ndcg@0]
bad-device TRAIN device=tpu
bad-precision TRAIN precision=float8
following-with-neumf TRAIN batch.following=3
broken-recipe train raw/broken.yaml -q -o OUT
run-exists train recommendation data=data/clicks -q -o runs/model/neumf
unknown-option train recommendation --fast
unknown-command trian recommendation
unknown-kind data prepare movielens-2m raw/u.data -o OUT
unknown-kind-option data prepare interactions raw/clicks.csv --min-raiting 3 -o OUT
missing-source data prepare interactions raw/nowhere.csv -o OUT
broken-csv-line data prepare interactions raw/broken.csv -o OUT
broken-ratings-line data prepare movielens-1m raw/broken.dat -o OUT
broken-letor-line data prepare letor raw/broken.txt -o OUT
broken-json-line data prepare xmc-text raw/broken.jsonl -o OUT
no-such-column data prepare interactions raw/clicks.csv --item-column movie -o OUT
duplicates-rejected data prepare interactions raw/clicks.csv --duplicates error -o OUT
data-set-exists data prepare interactions raw/clicks.csv -o data/clicks
data-show-nothing data show raw
evaluate-no-run evaluate raw
evaluate-bad-split evaluate runs/model/neumf --split nothing
evaluate-bad-metric evaluate runs/model/neumf --metric ndgc
compare-nothing compare raw
compare-other-data compare runs/model/neumf runs/model/mlp
compare-bad-baseline compare runs/seeds --baseline nothing
compare-bad-baseline-model compare runs/seeds --baseline-model svd
compare-baseline-model-search compare runs/model/mlp --baseline-model ease
ensemble-of-one ensemble runs/model/neumf -o OUT
ensemble-of-different-models ensemble runs/model/neumf runs/model/two-tower -o OUT
recommend-with-a-ranker recommend runs/model/mlp -o OUT.csv
recommend-bad-output recommend runs/model/neumf -o OUT.xlsx
recommend-new-users recommend runs/model/neumf raw/users.csv --fallback error -o OUT.csv
recommend-histories-by-id recommend runs/model/neumf --histories raw/histories.csv -o OUT.csv
rank-bad-input rank runs/model/mlp raw/clicks.csv -o OUT.csv
label-bad-input label runs/model/label-mlp raw/clicks.csv -o OUT.csv
export-bad-name export runs/model/neumf -o OUT.bin
report-no-run report raw -o OUT.html
tune-bad-search tune recommendation data=data/clicks --search loss.gamma=2..1 -o OUT
tune-unknown-key tune recommendation data=data/clicks --search loss.gama=0.1..1 -o OUT
paper-unknown paper fig-function -o OUT
paper-bad-data paper table-stats --data yelp=nowhere -o OUT
recipe-unknown recipes nothing
""".replace("TRAIN", "train recommendation data=data/clicks -q -o OUT")
)
