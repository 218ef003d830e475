"""Losses of songrank for the trainers of other libraries, one module per library; nothing here is imported by songrank.

============================================  ======================================================================
module                                        content
============================================  ======================================================================
``songrank.integrations.sentence_transformers``  ``RerankingLoss`` for ``CrossEncoderTrainer``, ``RetrievalLoss`` for
                                              ``SentenceTransformerTrainer``
``songrank.integrations.transformers``        ``ListCollator`` and ``ListLossFunction`` for ``Trainer``;
                                              ``MemoryCallback``, which saves the memory with the checkpoints of all
                                              trainers of Hugging Face
``songrank.integrations.lightning``           ``SlateDataModule``, which resumes the sampler with the model and loss
============================================  ======================================================================
"""
