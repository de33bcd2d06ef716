"""The best and the worst test images of a detector."""

from zoo.detection import evaluate


def test_the_best_and_the_worst_images_are_drawn():
    f1 = {number: number / 20 for number in (3, 1, 4, 15, 9, 2, 6, 5, 14, 13, 12, 11, 10, 8)}
    objects = [{"image_id": 1, "id": 7}]
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in f1]
    found = [{"image_id": 15, "score": 0.9}, {"image_id": 1, "score": 0.8}]
    annotations = {"images": images, "annotations": objects}
    read = lambda ids: {number: -number for number in ids}  # noqa: E731
    grids = dict(evaluate.extremes(read, f1, found, annotations))
    order = sorted(f1)
    for name, numbers in (("worst", order[:12]), ("best", order[::-1][:12])):
        assert grids[name] == [
            (
                f"{number}.jpg: F1 {number / 20:.2f}",
                -number,
                [one for one in found if one["image_id"] == number],
                objects if number == 1 else [],
            )
            for number in numbers
        ]


def test_ids_are_those_of_the_file():
    images, categories = [{"id": 1, "file_id": 17}, {"id": 2}], [{"id": 3, "file_id": 90}]
    annotations = {"images": images, "categories": categories}
    found = [{"image_id": image, "category_id": 3, "score": 0.5} for image in (1, 2)]
    expected = [{"image_id": image, "category_id": 90, "score": 0.5} for image in (17, 2)]
    assert evaluate.with_file_ids(found, annotations) == expected
    other = {"image_id": 1, "category_id": 90, "score": 0.5}  # a category of the detector alone
    assert evaluate.with_file_ids([other], annotations) == []
