SELECT predicted_from, recorded_in, 'sooner' AS own_variant, TRUE AS is_judged FROM pairs
