"""Keras layers on the Ascend C operators."""

from typing import Any

import tensorflow as tf

from ascend_ops import tensorflow as ascend
from ascend_ops.arguments import CORRECT, check_counts, check_padding


class Embedding(tf.keras.layers.Layer):  # type: ignore[misc]  # TensorFlow ships no types
    """An embedding table whose gradient is computed by `AscendEmbeddingDenseGrad`.

    The forward pass is that of tf.keras.layers.Embedding: integers of any shape become rows of
    the table, one axis more. `padding_idx` names a row that is never trained;
    `scale_grad_by_freq` divides a row's gradient by how often it occurs in the batch. The
    gradient is dense: a tensor of the table's shape, not IndexedSlices.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: str = "uniform",
        padding_idx: int | None = None,
        scale_grad_by_freq: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_counts("Embedding", input_dim=input_dim, output_dim=output_dim)
        check_padding("Embedding", padding_idx, input_dim)
        if self.compute_dtype not in {dtype.name for dtype in ascend.TYPES}:
            raise ValueError(
                f"Embedding: dtype {self.compute_dtype} is not supported; use float32, float16 or "
                "bfloat16"
            )
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.padding_idx = padding_idx
        self.scale_grad_by_freq = scale_grad_by_freq

    def build(self, input_shape: Any = None) -> None:
        """Makes the table."""
        self.embeddings = self.add_weight(
            shape=(self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
            name="embeddings",
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Looks up; an index outside the table is an InvalidArgumentError."""
        indices = tf.convert_to_tensor(inputs)
        if not (indices.dtype.is_integer or indices.dtype.is_floating):
            raise TypeError(
                f"Embedding: the inputs have dtype {indices.dtype.name}; they must be numbers of "
                "rows. Turn words into numbers first (tf.keras.layers.StringLookup)"
            )
        if indices.dtype not in (tf.int32, tf.int64):
            indices = tf.cast(indices, tf.int64)  # wide enough that none becomes another row

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def look_up(table: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                return ascend.embedding_dense_grad(
                    upstream, indices, self.input_dim, self.padding_idx, self.scale_grad_by_freq
                )

            return self._gather(table, indices), gradient

        return look_up(tf.convert_to_tensor(self.embeddings))

    def _gather(self, table: Any, indices: Any) -> Any:
        try:
            return tf.gather(table, indices)
        except tf.errors.InvalidArgumentError as error:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"Embedding: an index is outside the table of {self.input_dim} rows{CORRECT} "
                f"(input_dim): {error.message}",
            ) from error

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the input and one axis more."""
        return (*input_shape, self.output_dim)

    def get_config(self) -> dict[str, Any]:
        """What makes the same layer again."""
        initializer = tf.keras.initializers.serialize(self.embeddings_initializer)
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": initializer,
            "padding_idx": self.padding_idx,
            "scale_grad_by_freq": self.scale_grad_by_freq,
        }
